// Ascending primes per (layer, order, head), never used twice in a model: the bucket counts of
// Engram tables. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "config/result.h"

namespace engramd::engine {

bool is_prime(std::int64_t n);  // deterministic for every int64

// [layer][order][head]. The search restarts at vocab_size[order] for each (layer, order) and skips
// primes used before in the model; Qwen's rule (restart = false) runs on from layer to layer.
// Refused: a base outside 2 .. 2^40 (the search stays bounded for untrusted configs).
Result<std::vector<std::vector<std::vector<std::int64_t>>>> search_primes(
    int n_layers, const std::vector<std::int64_t>& vocab_size_per_order, int n_heads);

}  // namespace engramd::engine
