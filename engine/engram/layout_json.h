// Layouts as files, for hashing without any weights: that of the public Engram demo
// (engram_config.json), and what engram-peft saves next to an adapter (config.json).
// Pure parsing of untrusted text, any thread. Not here: the file's `backbone` and what else the
// configuration makes of it (config/); model checkpoints (engine/checkpoint/model_config).
#pragma once

#include <string_view>

#include "config/result.h"
#include "engine/engram/layout.h"

namespace engramd::engine {

// hashed_vocab_size stays 0: the caller takes it from the tokenizer's map (TokenMap::n_classes),
// then calls make_layout, which checks ranges. Errors name the key, what was expected and got.
Result<EngramLayoutConfig> parse_layout_json(std::string_view json);

struct PeftLayout {
  EngramLayoutConfig config;  // hashed_vocab_size as the file says
  // Whether ids are compressed (build_token_map over the vocabulary without added tokens) or
  // hashed raw.
  bool compresses_tokens = true;
};
// Keys that do not decide addresses are not read. Refused: another `engine` than "deepseek", orders
// other than 2 .. max_ngram_size, sizes of its own in `prime_sizes`.
Result<PeftLayout> parse_peft_json(std::string_view json);

// Whether it is the latter: "model_type": "engram" and no object "engram".
bool is_peft_json(std::string_view json);

}  // namespace engramd::engine
