// From the configuration to what the engine takes.
#pragma once

#include <string>

#include "config/options.h"
#include "engine/runtime/local_engine.h"

namespace engramd::server {

engine::LocalEngineOptions to_engine_options(const config::Options& options,
                                             std::string model_folder);

// From [engram.table] and its neighbours to what TableRows::open takes.
engine::TableOpenOptions to_table_open_options(const config::TableOptions& options,
                                               std::int64_t available_memory_bytes);
// engram.table.path, or empty when no file is there: then the model's own table is used.
std::string table_file(const config::TableOptions& options);

}  // namespace engramd::server
