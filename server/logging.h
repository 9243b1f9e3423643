// Logging: spdlog to stderr, never stdout, which is the protocol's. Only server/ logs; other rooms
// return errors and statistics. No prompts at any level. A stderr that nobody reads loses lines
// instead of stopping the daemon.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/options.h"
#include "engine/runtime/local_engine.h"

namespace spdlog {
class logger;
}

namespace engramd::server {

std::shared_ptr<spdlog::logger> make_logger(const config::LogOptions& options);

void log_warnings(spdlog::logger& logger, const std::vector<std::string>& lines);

// What is odd in the model's files, then the lines that people search for (issue trackers, set-up
// guides); their words stay.
void log_table_loaded(spdlog::logger& logger, const engine::ModelFacts& facts,
                      std::int64_t table_bytes);
void log_chat(spdlog::logger& logger, const engine::ChatResult& result);

}  // namespace engramd::server
