// What the table tools share: they wait for the model, then work on a thread of their own, because
// a durable commit waits for the disk and the io thread must not.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>

#include "engine/runtime/table_editor.h"
#include "mcp/registry.h"
#include "server/tools/services.h"

namespace engramd::server {

// One call, on the table thread.
struct TableJob {
  const mcp::json& arguments;
  engine::TableEditor& editor;
  std::stop_token stop;  // the client cancelled
  std::function<void(std::int64_t done_bytes, std::int64_t total_bytes)> progress;
};

using TableWork =
    std::function<Result<mcp::ToolResult>(const mcp::json& arguments, engine::TableEditor& editor)>;
std::function<void(std::shared_ptr<mcp::ToolCall>)> table_handler(const Services& services,
                                                                  TableWork work);
// For work that lasts: says how far it is, looks at the stop.
using LongTableWork = std::function<Result<mcp::ToolResult>(TableJob& job)>;
std::function<void(std::shared_ptr<mcp::ToolCall>)> long_table_handler(const Services& services,
                                                                       LongTableWork work);

}  // namespace engramd::server
