// Reads a Hugging Face tokenizer.json into plain data. The file is untrusted: sizes, ids and
// references are checked here, and what this engine does not do is an error that names it.
// Pure; any thread. Private to this room, but for tests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/vocabulary.h"

namespace engramd::engine {

inline constexpr std::size_t kMaxTokenizerJsonBytes = 256u << 20;  // the largest known has 33 MB

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;     // decode may skip it
  bool normalized = false;  // is searched in normalized text
};

struct TokenizerSpec {
  std::vector<std::string> vocabulary;  // by id, added tokens included; empty: a hole
  std::vector<Merge> merges;            // in the order they were learnt
  bool ignore_merges = false;           // a piece that is a token is taken whole, before any merge
  std::vector<AddedToken> added_tokens;
  bool normalize_nfc = false;
  std::vector<SplitRule> split_rules;
  std::vector<TokenId> prefix;  // what the post-processor puts in front
};

Result<TokenizerSpec> parse_tokenizer_json(std::string_view json);

}  // namespace engramd::engine
