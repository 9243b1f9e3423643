// HttpRules: what Streamable HTTP adds to the protocol, as functions of a message and the headers
// that came with it: which era a POST belongs to, which headers must agree with the body, which
// status an answer has. Pure. Not here: sessions, streams, sockets (server/api/mcp_http).
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "mcp/json_rpc.h"
#include "mcp/protocol.h"

namespace engramd::mcp::http {

// The value of a header, whatever the case of its name; nothing when it is absent.
using Header = std::function<std::optional<std::string_view>(std::string_view name)>;

inline constexpr std::string_view kVersionHeader = "MCP-Protocol-Version";
inline constexpr std::string_view kSessionHeader = "Mcp-Session-Id";
inline constexpr std::string_view kLastEventHeader = "Last-Event-ID";
inline constexpr std::string_view kMethodHeader = "Mcp-Method";
inline constexpr std::string_view kNameHeader = "Mcp-Name";

// By what the body says, or else by the version header.
bool is_modern(const Incoming& incoming, const Header& header);

// 2026-07-28 basic/transports/streamable-http: a modern request and its headers say the same. For
// modern messages only; nothing when all is well.
std::optional<RpcError> check_headers(const Message& message, const Header& header);

// Is there a request in it that will be answered (or something invalid that has to be)?
bool expects_answer(const Incoming& incoming);

// The one `initialize` that opens a legacy session.
bool opens_session(const Incoming& incoming);

// Of an answer whose error has that code; 0: none.
int status(bool modern, int error_code);

}  // namespace engramd::mcp::http
