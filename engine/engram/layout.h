// EngramLayout: how a token stream becomes row addresses. Plain data, built from a checkpoint's
// config (engine/checkpoint/model_config) or a layout file, validated by `make_layout`; immutable
// afterwards, any thread may read it. Formulas: arXiv 2601.07372 and its public demo; variants:
// DeepSeek-V4.1-Flash, Qwen3.8-Flash-Next, engram-peft 1.2.7. Not here: hashing itself (addresser),
// row bytes (row_codec), token compression (token_map).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/result.h"

namespace engramd::engine {

// Row files store the number: append only.
enum class EngramVariant { kDemo, kDeepSeekV41, kQwen4Exp, kBundled, kPeft };
const char* name_of(EngramVariant variant);

// What a configuration says. Everything else is derived.
struct EngramLayoutConfig {
  EngramVariant variant = EngramVariant::kDemo;
  std::vector<std::int64_t> layer_ids;  // 0-based, in the order of the prime search (peft: rising)
  int max_ngram_size = 3;               // orders are 2..max_ngram_size
  int n_heads = 8;                      // per order
  int head_dim = 64;                    // columns of one row
  // One per order: the prime search base of each head; peft: of all heads together.
  std::vector<std::int64_t> vocab_size;
  std::int64_t pad_token_id = 2;  // before compression
  std::int64_t seed = 0;
  std::int64_t hashed_vocab_size = 0;       // V': classes of the token map (raw vocabulary: Qwen)
  std::vector<std::int64_t> eos_token_ids;  // Qwen: only the first cuts history
  std::int64_t dead_token_id = -1;          // V4.1: image token; -1 for none
  // Numbers that a checkpoint carries: Qwen's stored multipliers replace the derived ones; for the
  // others they are compared with what is derived, and a difference is refused. Empty: absent.
  std::vector<std::vector<std::uint64_t>> multipliers;         // [layer][order slot]
  std::vector<std::vector<std::vector<std::int64_t>>> primes;  // [layer][order - 2][head]
};

struct EngramLayer {
  std::int64_t layer_id = 0;
  // [max_ngram_size]; slot 0 belongs to the current token, the rest to ever older ones.
  // oldest_first (peft): slot 0 belongs to the oldest token of the widest N-gram, and narrower ones
  // begin there too, so that they end before the current token.
  std::vector<std::uint64_t> multipliers;
  bool oldest_first = false;
  std::vector<std::int64_t> primes;   // [n_columns], order-major then head
  std::vector<std::int64_t> offsets;  // [n_columns], first row of the column's bucket range
  std::int64_t n_rows = 0;            // sum of primes
};

struct EngramLayout {
  EngramLayoutConfig config;
  std::vector<EngramLayer> layers;

  int n_orders() const { return config.max_ngram_size - 1; }
  int n_columns() const { return n_orders() * config.n_heads; }        // rows per token and layer
  int columns_width() const { return n_columns() * config.head_dim; }  // width of e
  int order_of(int column) const { return 2 + column / config.n_heads; }
  int head_of(int column) const { return column % config.n_heads; }
};

// Derives multipliers, primes and offsets. Refuses, with what was expected and got: no layers,
// duplicate or negative layer ids (peft: not rising), orders outside 2..16, heads outside 1..64,
// head_dim outside 1..65536, an unbounded prime search, stored numbers that differ from the derived
// ones.
Result<EngramLayout> make_layout(EngramLayoutConfig config);

}  // namespace engramd::engine
