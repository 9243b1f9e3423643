// The facts of the Model Context Protocol that more than one file needs, each stated once with the
// page of the specification it comes from (modelcontextprotocol.io/specification/<revision>/...).
// Constants only; usable from any thread.
#pragma once

#include <array>
#include <optional>
#include <string_view>

namespace engramd::mcp {

// Revisions in order of time, so that `revision >= Revision::k2025_06_18` reads as it should.
// All but the last negotiate by `initialize` (the legacy era); the last is stateless (modern).
enum class Revision { k2024_11_05, k2025_03_26, k2025_06_18, k2025_11_25, k2026_07_28 };

// basic/lifecycle (legacy), basic/versioning (modern).
inline constexpr std::array<std::string_view, 5> kRevisionNames = {
    "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"};
inline constexpr Revision kLegacyNewest = Revision::k2025_11_25;
inline constexpr Revision kModern = Revision::k2026_07_28;

constexpr std::string_view to_string(Revision revision) {
  return kRevisionNames[static_cast<std::size_t>(revision)];
}
constexpr std::optional<Revision> parse_revision(std::string_view name) {
  for (std::size_t i = 0; i < kRevisionNames.size(); ++i) {
    if (kRevisionNames[i] == name) return static_cast<Revision>(i);
  }
  return std::nullopt;
}

// JSON-RPC 2.0, section 5.1.
inline constexpr int kParseError = -32700;
inline constexpr int kInvalidRequest = -32600;
inline constexpr int kMethodNotFound = -32601;
inline constexpr int kInvalidParams = -32602;
inline constexpr int kInternalError = -32603;
// server/resources, up to 2025-11-25; the modern era answers kInvalidParams instead.
inline constexpr int kResourceNotFound = -32002;
// 2026-07-28 schema, "MCP error codes". Never on the legacy path: clients take them for a sign of a
// modern server.
inline constexpr int kHeaderMismatch = -32020;
inline constexpr int kMissingClientCapability = -32021;
inline constexpr int kUnsupportedProtocolVersion = -32022;
// Our own, outside the ranges that JSON-RPC and MCP reserve; the number is HTTP's word for it.
inline constexpr int kTooManyRequests = 429;

// Requests of the legacy era only (basic/lifecycle, basic/utilities/ping,
// server/utilities/logging).
inline constexpr std::string_view kInitialize = "initialize";
inline constexpr std::string_view kPing = "ping";
inline constexpr std::string_view kLoggingSetLevel = "logging/setLevel";
// Requests of the modern era only (2026-07-28 server/discover, basic/patterns/subscriptions).
inline constexpr std::string_view kServerDiscover = "server/discover";
inline constexpr std::string_view kSubscriptionsListen = "subscriptions/listen";
// Requests of both eras (server/tools, server/resources, server/prompts,
// server/utilities/completion).
inline constexpr std::string_view kToolsList = "tools/list";
inline constexpr std::string_view kToolsCall = "tools/call";
inline constexpr std::string_view kResourcesList = "resources/list";
inline constexpr std::string_view kResourceTemplatesList = "resources/templates/list";
inline constexpr std::string_view kResourcesRead = "resources/read";
inline constexpr std::string_view kPromptsList = "prompts/list";
inline constexpr std::string_view kPromptsGet = "prompts/get";
inline constexpr std::string_view kCompletionComplete = "completion/complete";
// Requests of the legacy era only (server/resources#subscriptions).
inline constexpr std::string_view kResourcesSubscribe = "resources/subscribe";
inline constexpr std::string_view kResourcesUnsubscribe = "resources/unsubscribe";

// Notifications (basic/utilities/cancellation, basic/utilities/progress,
// 2026-07-28 basic/patterns/subscriptions).
inline constexpr std::string_view kCancelled = "notifications/cancelled";
inline constexpr std::string_view kProgress = "notifications/progress";
inline constexpr std::string_view kSubscriptionsAcknowledged =
    "notifications/subscriptions/acknowledged";
// server/tools, server/prompts, server/resources: what changed; server/utilities/logging.
inline constexpr std::string_view kToolsListChanged = "notifications/tools/list_changed";
inline constexpr std::string_view kPromptsListChanged = "notifications/prompts/list_changed";
inline constexpr std::string_view kResourcesListChanged = "notifications/resources/list_changed";
inline constexpr std::string_view kResourcesUpdated = "notifications/resources/updated";
inline constexpr std::string_view kLogMessage = "notifications/message";

// Keys of _meta (2026-07-28 basic/index#meta; progressToken in every revision).
inline constexpr char kMeta[] = "_meta";
inline constexpr char kProgressToken[] = "progressToken";
inline constexpr char kMetaProtocolVersion[] = "io.modelcontextprotocol/protocolVersion";
inline constexpr char kMetaClientCapabilities[] = "io.modelcontextprotocol/clientCapabilities";
inline constexpr char kMetaLogLevel[] = "io.modelcontextprotocol/logLevel";
inline constexpr char kMetaServerInfo[] = "io.modelcontextprotocol/serverInfo";
inline constexpr char kMetaSubscriptionId[] = "io.modelcontextprotocol/subscriptionId";

// server/utilities/logging: the levels of RFC 5424.
inline constexpr std::array<std::string_view, 8> kLogLevels = {
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"};

}  // namespace engramd::mcp
