#include "mcp/json_rpc.h"

#include <utility>

#include "mcp/protocol.h"

namespace engramd::mcp {
namespace {

constexpr std::string_view kBlank = " \t\r\n";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

std::string_view trim(std::string_view text) {
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    text.remove_prefix(kByteOrderMark.size());
  }
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// The index behind the string that opens at `open`; the end of the text when it never closes.
size_t skip_string(std::string_view text, size_t open) {
  for (size_t i = open + 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      return i + 1;
    }
  }
  return text.size();
}

// The parser reads strings by the same rule and stops at the first error, so it never goes deeper
// than this count, whatever the text is.
bool is_deeper_than(std::string_view text, int depth_max) {
  int depth = 0;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"') {
      i = skip_string(text, i);
      continue;
    }
    if ((c == '[' || c == '{') && ++depth > depth_max) return true;
    if (c == ']' || c == '}') --depth;
    ++i;
  }
  return false;
}

// The UTF-16 unit of a \uXXXX escape at `at`.
std::optional<unsigned> escaped_unit(std::string_view text, size_t at) {
  if (text.size() < at + 6 || text[at] != '\\' || text[at + 1] != 'u') return std::nullopt;
  unsigned unit = 0;
  for (const char c : text.substr(at + 2, 4)) {
    unit <<= 4;
    if (c >= '0' && c <= '9') {
      unit |= static_cast<unsigned>(c - '0');
    } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
      unit |= static_cast<unsigned>((c | 0x20) - 'a' + 10);
    } else {
      return std::nullopt;
    }
  }
  return unit;
}

bool is_high_surrogate(unsigned unit) {
  return unit >= 0xD800 && unit <= 0xDBFF;
}
bool is_low_surrogate(unsigned unit) {
  return unit >= 0xDC00 && unit <= 0xDFFF;
}

std::string repair_surrogates(std::string_view text) {
  std::string repaired;
  repaired.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    if (text[i] != '\\') {
      repaired += text[i++];
      continue;
    }
    const auto unit = escaped_unit(text, i);
    size_t length = unit ? 6 : 2;
    if (unit && is_high_surrogate(*unit)) {
      const auto next = escaped_unit(text, i + 6);
      if (next && is_low_surrogate(*next)) length = 12;
    }
    const bool lone =
        length == 6 && (is_high_surrogate(unit.value_or(0)) || is_low_surrogate(unit.value_or(0)));
    repaired += lone ? std::string_view("\\ufffd") : text.substr(i, length);
    i += length;
  }
  return repaired;
}

json parse_json(std::string_view text) {
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded() && text.find("\\u") != std::string_view::npos) {
    value = json::parse(repair_surrogates(text), nullptr, /*allow_exceptions=*/false);
  }
  return value;
}

Message invalid(json id, int code, std::string message) {
  Message result;
  result.id = std::move(id);
  result.error = {code, std::move(message), nullptr};
  return result;
}

// The error of a response, whatever was made of it.
RpcError read_error(const json& error) {
  RpcError result{kInternalError, "the client answered with an error", nullptr};
  if (!error.is_object()) return result;
  if (error.contains("code") && error["code"].is_number_integer() && error["code"] != 0) {
    result.code = error["code"].get<int>();
  }
  if (error.contains("message") && error["message"].is_string()) {
    result.message = error["message"].get<std::string>();
  }
  return result;
}

Message read_message(json value) {
  if (!value.is_object()) {
    return invalid(nullptr, kInvalidRequest,
                   std::string("expected a JSON-RPC object, got ") + value.type_name());
  }
  Message message;
  const bool has_id = value.contains("id");
  const bool has_method = value.contains("method") && value["method"].is_string();
  if (!value.contains("method") && (value.contains("result") || value.contains("error"))) {
    message.kind = MessageKind::kResponse;
    if (has_id) message.id = std::move(value["id"]);
    if (value.contains("result")) {
      message.params = std::move(value["result"]);
    } else {
      message.error = read_error(value["error"]);
    }
    return message;
  }
  if (has_id && !is_valid_id(value["id"])) {
    return invalid(nullptr, kInvalidRequest, "id must be a string or an integer");
  }
  if (has_id) message.id = std::move(value["id"]);
  if (!has_method) {
    return invalid(std::move(message.id), kInvalidRequest, "method must be a string");
  }
  message.method = value["method"].get<std::string>();
  message.params = value.contains("params") ? std::move(value["params"]) : json();
  message.kind = has_id ? MessageKind::kRequest : MessageKind::kNotification;
  // A notification is never answered, not even a faulty one.
  if (has_id && value.value("jsonrpc", json()) != "2.0") {
    return invalid(std::move(message.id), kInvalidRequest, "jsonrpc must be \"2.0\"");
  }
  return message;
}

}  // namespace

Outcome Outcome::success(json result) {
  return {std::move(result), std::nullopt};
}

Outcome Outcome::failure(int code, std::string message, json data) {
  return {nullptr, RpcError{code, std::move(message), std::move(data)}};
}

bool is_valid_id(const json& id) {
  return id.is_string() || id.is_number_integer();
}

json recover_id(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c != '"') {
      depth += (c == '{' || c == '[') - (c == '}' || c == ']');
      ++i;
      continue;
    }
    const size_t end = skip_string(text, i);
    const bool is_id_key = depth == 1 && text.substr(i, end - i) == "\"id\"";
    i = end;
    if (!is_id_key) continue;
    const size_t colon = text.find_first_not_of(kBlank, end);
    if (colon == std::string_view::npos || text[colon] != ':') continue;
    const size_t start = text.find_first_not_of(kBlank, colon + 1);
    if (start == std::string_view::npos) return nullptr;
    const size_t stop =
        text[start] == '"' ? skip_string(text, start) : text.find_first_of(",}] \t\r\n", start);
    if (stop == std::string_view::npos) return nullptr;  // cut off inside the number
    json id = parse_json(text.substr(start, stop - start));
    return is_valid_id(id) ? id : json();
  }
  return nullptr;
}

json parse_bounded(std::string_view text, int depth_max) {
  text = trim(text);
  return is_deeper_than(text, depth_max) ? json(json::value_t::discarded) : parse_json(text);
}

Incoming parse_incoming(std::string_view text, int json_depth_max) {
  Incoming incoming;
  text = trim(text);
  if (text.empty()) return incoming;
  if (is_deeper_than(text, json_depth_max)) {
    incoming.messages.push_back(
        invalid(recover_id(text), kInvalidRequest,
                "message nests deeper than the limit of " + std::to_string(json_depth_max)));
    return incoming;
  }
  json value = parse_json(text);
  if (value.is_discarded()) {
    incoming.messages.push_back(
        invalid(recover_id(text), kParseError, "message is not valid JSON in UTF-8"));
    return incoming;
  }
  if (!value.is_array()) {
    incoming.messages.push_back(read_message(std::move(value)));
    return incoming;
  }
  if (value.empty()) {
    incoming.messages.push_back(invalid(nullptr, kInvalidRequest, "a batch must not be empty"));
    return incoming;
  }
  incoming.is_batch = true;
  incoming.messages.reserve(value.size());
  for (json& element : value) incoming.messages.push_back(read_message(std::move(element)));
  return incoming;
}

json make_response(const json& id, Outcome outcome) {
  json response = {{"jsonrpc", "2.0"}, {"id", id}};
  if (!outcome.error) {
    response["result"] = std::move(outcome.result);
    return response;
  }
  json& error = response["error"];
  error = {{"code", outcome.error->code}, {"message", std::move(outcome.error->message)}};
  if (!outcome.error->data.is_null()) error["data"] = std::move(outcome.error->data);
  return response;
}

json make_notification(std::string_view method, json params) {
  return {{"jsonrpc", "2.0"}, {"method", method}, {"params", std::move(params)}};
}

json make_request(const json& id, std::string_view method, json params) {
  return {{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(params)}};
}

std::string serialise(const json& value, bool ascii_only) {
  return value.dump(-1, ' ', ascii_only, json::error_handler_t::replace);
}

}  // namespace engramd::mcp
