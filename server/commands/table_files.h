// The verbs of `engramd table` that work on row files, without a daemon: info, open, create,
// import, verify. Each gets the words after its name.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/effective_config.h"
#include "config/result.h"

namespace engramd::server {

// What a verb answers: for people, and for --json.
struct TableAnswer {
  std::string text;
  nlohmann::json structured;
  bool ok = true;  // false: done, and the news is bad (verify found damage)
};

using TableArguments = std::vector<std::string>;
// An error that says `usage` when a verb got another number of words.
Result<void> expect_words(const char* verb, const TableArguments& words, std::size_t least,
                          std::size_t most, const char* usage);

Result<TableAnswer> table_info(const config::EffectiveConfig& config, const TableArguments& words);
Result<TableAnswer> table_open(const config::EffectiveConfig& config, const TableArguments& words);
Result<TableAnswer> table_create(const config::EffectiveConfig& config,
                                 const TableArguments& words);
Result<TableAnswer> table_import(const config::EffectiveConfig& config,
                                 const TableArguments& words);
Result<TableAnswer> table_verify(const config::EffectiveConfig& config,
                                 const TableArguments& words);

}  // namespace engramd::server
