// The verbs of `engramd table` that turn edits into files and back: export, fold, and put
// --overlay. They open the tables alone, not the model.
#pragma once

#include "server/commands/table_files.h"

namespace engramd::server {

Result<TableAnswer> table_export(const config::EffectiveConfig& config,
                                 const TableArguments& words);
Result<TableAnswer> table_fold(const config::EffectiveConfig& config, const TableArguments& words);
Result<TableAnswer> put_overlay(const config::EffectiveConfig& config, const std::string& file,
                                const std::string& author, const std::string& reason);

}  // namespace engramd::server
