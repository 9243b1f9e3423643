// What the table tools share: they wait for the model, then work on a thread of their own, because
// a durable commit waits for the disk and the io thread must not.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>

#include "engine/runtime/local_engine.h"
#include "mcp/registry.h"
#include "server/tools/services.h"

namespace engramd::server {

// One call, on the thread that its handler names.
struct TableJob {
  const mcp::json& arguments;
  engine::LocalEngine& engine;
  std::stop_token stop;  // the client cancelled
  // Any thread. what: the unit, in words.
  std::function<void(std::int64_t n_done, std::int64_t n_total, const char* what)> progress;
};

using TableWork =
    std::function<Result<mcp::ToolResult>(const mcp::json& arguments, engine::TableEditor& editor)>;
std::function<void(std::shared_ptr<mcp::ToolCall>)> table_handler(const Services& services,
                                                                  TableWork work);
// For work that lasts: says how far it is, looks at the stop. thread: of the services.
using LongTableWork = std::function<Result<mcp::ToolResult>(TableJob& job)>;
std::function<void(std::shared_ptr<mcp::ToolCall>)> long_table_handler(const Services& services,
                                                                       Post thread,
                                                                       LongTableWork work);

}  // namespace engramd::server
