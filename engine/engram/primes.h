// Ascending primes per (layer, order, head), never used twice in a model: the bucket counts of
// Engram tables. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "config/result.h"

namespace engramd::engine {

bool is_prime(std::int64_t n);  // deterministic for every int64

// [layer][order][head]. Each (layer, order) takes the smallest primes >= vocab_size[order] that the
// model has not used before. (Qwen's rule, "run on from layer to layer", says the same for its one
// base.) Refused: a base outside 2 .. 2^40, more than 4096 primes in all (the search stays bounded
// for untrusted configs).
Result<std::vector<std::vector<std::vector<std::int64_t>>>> search_primes(
    int n_layers, const std::vector<std::int64_t>& vocab_size_per_order, int n_heads);

}  // namespace engramd::engine
