// What the table tools share: they wait for the model, then work on a thread of their own, because
// a durable commit waits for the disk and the io thread must not.
#pragma once

#include <functional>
#include <memory>

#include "engine/runtime/table_editor.h"
#include "mcp/registry.h"
#include "server/tools/services.h"

namespace engramd::server {

using TableWork =
    std::function<Result<mcp::ToolResult>(const mcp::json& arguments, engine::TableEditor& editor)>;
std::function<void(std::shared_ptr<mcp::ToolCall>)> table_handler(const Services& services,
                                                                  TableWork work);

}  // namespace engramd::server
