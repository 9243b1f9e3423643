// JSON-RPC 2.0 on the wire: the only place where received text becomes JSON and where JSON becomes
// text to send. Bounded and total: any bytes give messages, each request, notification, response or
// invalid with the error to answer. Pure functions, usable from any thread.
// Not here: methods, eras, what a batch means.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace engramd::mcp {

using nlohmann::json;

struct RpcError {
  int code = 0;
  std::string message;
  json data;  // null: none
};

// What a method came to: `error` decides which of the two counts.
struct Outcome {
  json result;
  std::optional<RpcError> error;

  static Outcome success(json result);
  static Outcome failure(int code, std::string message, json data = nullptr);
};

enum class MessageKind { kRequest, kNotification, kResponse, kInvalid };

struct Message {
  MessageKind kind = MessageKind::kInvalid;
  json id;  // string or integer exactly as received; null: none, or none that could be read
  std::string method;
  json params;     // null: none; of a response: its result
  RpcError error;  // of kInvalid, and of a response that says so (its code is not 0)
};

struct Incoming {
  bool is_batch = false;
  std::vector<Message> messages;  // empty for a blank text
};

// Accepts a BOM, CRLF and unpaired surrogate escapes (JavaScript writes them; they become U+FFFD).
// Nesting is counted before the tree is built, because copying and dumping a deep tree recurse.
Incoming parse_incoming(std::string_view text, int json_depth_max);

// A value that a stranger sent, with the same leniency and bound; discarded: not JSON, or deeper.
json parse_bounded(std::string_view text, int depth_max);

// The id in a text that is broken, cut off or too large to parse; null when there is none.
json recover_id(std::string_view text);

// JSON-RPC ids are strings or integers; MCP forbids null, and a number with a fraction or beyond
// 64 bits could not be echoed as received.
bool is_valid_id(const json& id);

json make_response(const json& id, Outcome outcome);
json make_notification(std::string_view method, json params);
json make_request(const json& id, std::string_view method, json params);

// One line, never throws: bytes that are not UTF-8 become U+FFFD.
std::string serialise(const json& value, bool ascii_only = false);

}  // namespace engramd::mcp
