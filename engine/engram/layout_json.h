// The layout file of the public Engram demo (engram_config.json): hashing without any weights.
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

}  // namespace engramd::engine
