// TokenMap: token id to compressed id ("class"), Engram's vocabulary compression (arXiv 2601.07372,
// section on tokenizer compression; rule of the public demo's CompressedTokenizer). Immutable after
// construction. Not here: hashing.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"
#include "engine/tokenizer/tokenizer.h"

namespace engramd::engine {

// NFKC, NFD, category M dropped, lowercase per code point, runs of [ \t\r\n] to one space, blanks
// stripped (a lone blank survives). `text` must be valid UTF-8. Unicode version: utf8proc's (2.8:
// 15.0). Hugging Face's tables mix versions and differ in 546 code points from that; none of them
// occurs in the vocabularies of DeepSeek-V3, Qwen3, Llama 3.1, gpt-oss and the bundled model, and
// they are not imitated.
std::string normalize_for_engram(std::string_view text);

struct TokenMap {
  std::vector<std::int32_t> classes;  // [vocab_size], token id -> compressed id
  std::int64_t n_classes = 0;         // V'; engram-peft: of the compressed ids alone
};

// First-occurrence numbering over ids 0 .. vocab_size-1. Under a second for 128k tokens.
// compressed_ids: ids from there on stay as they are (engram-peft compresses the vocabulary without
// its added tokens, whose ids may then reach beyond n_classes).
TokenMap build_token_map(const Tokenizer& tokenizer,
                         std::int64_t compressed_ids = std::numeric_limits<std::int64_t>::max());
// For a checkpoint that stores its map: values must be 0 .. n_classes-1.
Result<TokenMap> token_map_from_tensor(const std::int32_t* classes, std::int64_t vocab_size,
                                       std::int64_t n_classes);
// A raw vocabulary (Qwen): every id is its own class.
TokenMap identity_token_map(std::int64_t vocab_size);

// The classes of a token sequence; `dead_token_id` (V4.1's image token) becomes kDeadClass.
// Error: an id outside the map.
Result<std::vector<std::int32_t>> compress_tokens(const TokenMap& map, std::span<const TokenId> ids,
                                                  std::int64_t dead_token_id = -1);

std::string sha256_hex(const TokenMap& map);  // of the little-endian int32 array

}  // namespace engramd::engine
