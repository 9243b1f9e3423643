// TokenMap: token id to compressed id ("class"), Engram's vocabulary compression (arXiv 2601.07372,
// section on tokenizer compression; rule of the public demo's CompressedTokenizer). Immutable after
// construction. Not here: hashing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"
#include "engine/tokenizer/tokenizer.h"

namespace engramd::engine {

// NFKC, NFD, category M dropped, lowercase per code point, runs of [ \t\r\n] to one space, blanks
// stripped (a lone blank survives). `text` must be valid UTF-8.
std::string normalize_for_engram(std::string_view text);

struct TokenMap {
  std::vector<std::int32_t> classes;  // [vocab_size], token id -> compressed id
  std::int64_t n_classes = 0;         // V'
};

// First-occurrence numbering over ids 0 .. vocab_size-1. Under a second for 128k tokens.
TokenMap build_token_map(const Tokenizer& tokenizer);
// For a checkpoint that stores its map: values must be 0 .. n_classes-1.
Result<TokenMap> token_map_from_tensor(const std::int32_t* classes, std::int64_t vocab_size,
                                       std::int64_t n_classes);
// A raw vocabulary (Qwen): every id is its own class.
TokenMap identity_token_map(std::int64_t vocab_size);

std::string sha256_hex(const TokenMap& map);  // of the little-endian int32 array

}  // namespace engramd::engine
