// The `chat` tool: messages in, an answer out, from whichever backend serves it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "config/options.h"
#include "engine/runtime/chat_backend.h"
#include "mcp/registry.h"
#include "server/tools/services.h"

namespace engramd::server {

mcp::Tool make_chat_tool(const Services& services);

// Pieces, for the chat command and the tests.
std::vector<mcp::Field> chat_input_fields(const config::Options& options);
std::vector<mcp::Field> chat_output_fields();
// `arguments` has passed chat_input_fields; refuses what a field table cannot express.
Result<engine::ChatRequest> to_chat_request(const mcp::json& arguments);
// token_text: what one token id reads as.
mcp::ToolResult to_tool_result(const engine::ChatResult& result, bool engram_enabled,
                               const std::function<std::string(engine::TokenId)>& token_text);
// "local engram-nano, 8 tokens, 912 tokens/s, Engram hit rate 0.83"
std::string served_line(const engine::ChatResult& result, bool engram_enabled);

}  // namespace engramd::server
