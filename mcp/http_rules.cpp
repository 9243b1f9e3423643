#include "mcp/http_rules.h"

#include <algorithm>
#include <string>

#include "mcp/base64.h"
#include "mcp/stateless.h"
#include "mcp/text.h"

namespace engramd::mcp::http {
namespace {

constexpr std::string_view kEncodedBegin = "=?base64?";
constexpr std::string_view kEncodedEnd = "?=";

std::string_view trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

// Values that a header cannot hold as they are come as =?base64?...?=. Nothing: broken encoding.
std::optional<std::string> decode(std::string_view value) {
  value = trim(value);
  if (!value.starts_with(kEncodedBegin) || !value.ends_with(kEncodedEnd) ||
      value.size() < kEncodedBegin.size() + kEncodedEnd.size()) {
    return std::string(value);
  }
  value.remove_prefix(kEncodedBegin.size());
  value.remove_suffix(kEncodedEnd.size());
  return from_base64(value);
}

std::optional<RpcError> must_equal(const Header& header, std::string_view name,
                                   const std::string& expected) {
  const auto value = header(name);
  const auto decoded = value ? decode(*value) : std::nullopt;
  if (decoded && *decoded == expected) return std::nullopt;
  const std::string got = !value ? "no such header" : decoded ? quote(*decoded) : "broken base64";
  return RpcError{kHeaderMismatch,
                  "header " + std::string(name) + " must say what the body says: expected " +
                      quote(expected) + ", got " + got,
                  nullptr};
}

// The member of params that Mcp-Name repeats; null: none for this method.
const char* name_member(const std::string& method) {
  if (method == kToolsCall || method == kPromptsGet) return "name";
  return method == kResourcesRead ? "uri" : nullptr;
}

bool modern_by_body(const Message& message) {
  if (message.kind != MessageKind::kRequest && message.kind != MessageKind::kNotification) {
    return false;
  }
  return stateless::is_modern(message.method, message.params);
}

}  // namespace

bool is_modern(const Incoming& incoming, const Header& header) {
  if (!incoming.is_batch && incoming.messages.size() == 1 &&
      modern_by_body(incoming.messages.front())) {
    return true;
  }
  const auto version = header(kVersionHeader);
  return version && parse_revision(trim(*version)) == kModern;
}

std::optional<RpcError> check_headers(const Message& message, const Header& header) {
  if (message.kind != MessageKind::kRequest) return std::nullopt;
  const json meta = message.params.is_object() ? message.params.value(kMeta, json()) : json();
  // What is incomplete in the body comes before what the headers say (stateless::check_meta).
  if (!meta.is_object() || !meta.value(kMetaProtocolVersion, json()).is_string() ||
      !meta.value(kMetaClientCapabilities, json()).is_object()) {
    return RpcError{kInvalidParams,
                    std::string("params._meta must carry the string ") + kMetaProtocolVersion +
                        " and the object " + kMetaClientCapabilities,
                    nullptr};
  }
  if (auto error =
          must_equal(header, kVersionHeader, meta[kMetaProtocolVersion].get<std::string>())) {
    return error;
  }
  if (meta[kMetaProtocolVersion] != to_string(kModern)) return std::nullopt;  // refused later
  if (auto error = must_equal(header, kMethodHeader, message.method)) return error;
  const char* member = name_member(message.method);
  if (member == nullptr) return std::nullopt;
  const json name = message.params.value(member, json());
  if (!name.is_string()) return std::nullopt;  // refused later
  return must_equal(header, kNameHeader, name.get<std::string>());
}

bool expects_answer(const Incoming& incoming) {
  return std::any_of(incoming.messages.begin(), incoming.messages.end(), [](const Message& each) {
    return each.kind == MessageKind::kRequest || each.kind == MessageKind::kInvalid;
  });
}

bool opens_session(const Incoming& incoming) {
  return !incoming.is_batch && incoming.messages.size() == 1 &&
         incoming.messages.front().kind == MessageKind::kRequest &&
         incoming.messages.front().method == kInitialize;
}

int status(bool modern, int error_code) {
  if (error_code == 0) return 200;
  if (error_code == kParseError || error_code == kInvalidRequest) return 400;
  if (!modern) return 200;
  if (error_code == kMethodNotFound) return 404;
  if (error_code == kTooManyRequests) return 429;
  return error_code == kInternalError ? 500 : 400;
}

}  // namespace engramd::mcp::http
