// The verbs of `engramd table` that read and change rows: get, put, history, rollback, restore,
// snapshot, diff. Each is the MCP tool of the same work from a shell.
#pragma once

#include "server/commands/table_files.h"

namespace engramd::server {

Result<TableAnswer> table_get(const config::EffectiveConfig& config, const TableArguments& words);
Result<TableAnswer> table_put(const config::EffectiveConfig& config, const TableArguments& words);
Result<TableAnswer> table_history(const config::EffectiveConfig& config,
                                  const TableArguments& words);
Result<TableAnswer> table_rollback(const config::EffectiveConfig& config,
                                   const TableArguments& words);
Result<TableAnswer> table_restore(const config::EffectiveConfig& config,
                                  const TableArguments& words);
Result<TableAnswer> table_snapshot(const config::EffectiveConfig& config,
                                   const TableArguments& words);
Result<TableAnswer> table_diff(const config::EffectiveConfig& config, const TableArguments& words);

std::vector<config::CommandFlag> table_edit_flags();
std::string author_of(const config::EffectiveConfig& config);  // --author, or the user

}  // namespace engramd::server
