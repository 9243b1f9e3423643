#include "server/upstream/failure.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "mcp/text.h"
#include "server/transport/header_text.h"
#include "server/upstream/remote_json.h"

namespace engramd::server {
namespace {

using nlohmann::json;

constexpr std::size_t kMessageBytesMax = 300;
// Of a key: what some servers quote, and enough to know it by.
constexpr std::size_t kSecretStartBytes = 8;
constexpr std::string_view kHidden = "[hidden]";
// The official clients' bound for what a server may ask them to wait.
constexpr double kRetryAfterSecondsMax = 60;

struct Told {
  std::string code;
  std::string message;
  bool is_error = false;
};

std::string text_or(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return "";
  if (found->is_string()) return found->get<std::string>();
  return found->is_number() ? found->dump() : "";
}

// The shapes that servers are known to use: {"error":{message,type,code}}, {"error":"text"},
// {"detail":...}, {"code":...,"message":...}, {"object":"error","message":...}.
Told told_by(const json& body) {
  if (!body.is_object()) return {};
  const auto error = body.find("error");
  if (error != body.end() && error->is_object()) {
    std::string code = text_or(*error, "code");
    if (code.empty()) code = text_or(*error, "type");
    return {std::move(code), text_or(*error, "message"), true};
  }
  if (error != body.end() && error->is_string()) return {"", error->get<std::string>(), true};
  if (const auto detail = body.find("detail"); detail != body.end()) {
    return {"", detail->is_string() ? detail->get<std::string>() : detail->dump(), true};
  }
  if (text_or(body, "object") == "error" || (body.contains("code") && body.contains("message"))) {
    return {text_or(body, "code"), text_or(body, "message"), true};
  }
  return {};
}

bool has_any(std::string_view text, std::initializer_list<std::string_view> words) {
  const std::string low = lower_case(text);
  return std::any_of(words.begin(), words.end(),
                     [&low](std::string_view word) { return low.find(word) != std::string::npos; });
}

bool is_quota(const Told& told) {
  return has_any(told.code, {"insufficient_quota", "credit_balance", "billing", "usage_limit"}) ||
         has_any(told.message, {"insufficient balance", "exceeded your current quota"});
}

bool is_unknown_model(int status, const Told& told) {
  if (has_any(told.code, {"model_not_found", "model_not_exist"})) return true;
  if (has_any(told.message, {"no available channel", "\u65e0\u53ef\u7528\u6e20\u9053"}))
    return true;
  return (status == 404 || status == 400) && has_any(told.message, {"model"}) &&
         has_any(told.message, {"not found", "not exist", "does not exist", "not here"});
}

// "Wed, 21 Oct 2026 07:28:00 GMT"; one that has passed is no reason to wait.
std::optional<std::int64_t> wait_until(const std::string& date, std::int64_t unix_time_s) {
  std::tm parts{};
  const char* const end = ::strptime(date.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  const std::int64_t wait_s = ::timegm(&parts) - unix_time_s;
  return wait_s >= 0 ? std::optional(wait_s * 1000) : std::nullopt;
}

std::optional<std::int64_t> wait_of(const UpstreamAnswerHead& head, std::int64_t unix_time_s) {
  const auto number = [](const std::optional<std::string>& text) -> std::optional<double> {
    if (!text) return std::nullopt;
    double value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc() || end != text->data() + text->size() || !std::isfinite(value)) {
      return std::nullopt;
    }
    return value >= 0 ? std::optional(value) : std::nullopt;
  };
  if (const auto ms = number(head.retry_after_ms))
    return static_cast<std::int64_t>(std::min(*ms, 1e9));
  if (const auto s = number(head.retry_after)) {
    return static_cast<std::int64_t>(std::min(*s, 1e6) * 1000);
  }
  return head.retry_after ? wait_until(*head.retry_after, unix_time_s) : std::nullopt;
}

FailureClass class_of(int status) {
  static constexpr std::array kRefusedStatus = {408, 409, 425, 429, 500, 503, 529};
  if (std::find(kRefusedStatus.begin(), kRefusedStatus.end(), status) != kRefusedStatus.end()) {
    return FailureClass::kRefused;
  }
  return status >= 500 ? FailureClass::kAmbiguous : FailureClass::kFinal;
}

std::string meaning_of(int status) {
  switch (status) {
    case 401:
      return "the key is not accepted";
    case 402:
      return "the balance is used up";
    case 403:
      return "access is denied";
    case 404:
      return "there is no such path";
    case 407:
      return "a proxy wants a password";
    case 429:
      return "too many requests";
    default:
      return status >= 500 ? "the server failed" : "the request was refused";
  }
}

}  // namespace

std::string one_line(std::string_view text) {
  std::string line = mcp::sanitise_text(
      mcp::cut_at_code_point(text.substr(0, kMessageBytesMax), kMessageBytesMax));
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return line;
}

void hide_secret(std::string& text, std::string_view secret) {
  if (secret.empty()) return;
  const std::string_view start = secret.substr(0, kSecretStartBytes);
  for (std::size_t at = 0; (at = text.find(start, at)) != std::string::npos;) {
    std::size_t end = at;
    while (end < text.size() && end - at < secret.size() && text[end] == secret[end - at]) ++end;
    text.replace(at, end - at, kHidden);
    at += kHidden.size();
  }
}

UpstreamFailure failure_of(const UpstreamAnswerHead& head, std::string_view body,
                           std::int64_t unix_time_s) {
  const Told told = told_by(parse_remote_json(body));
  UpstreamFailure failure;
  failure.status = head.status;
  failure.which = class_of(head.status);
  failure.retry_after_ms = wait_of(head, unix_time_s);
  failure.message = "HTTP " + std::to_string(head.status) + ": ";
  if (head.status >= 300 && head.status < 400) {
    failure.message +=
        "the server sends elsewhere, and a key is not sent after that; use the "
        "address that it leads to";
    return failure;
  }
  if (is_unknown_model(head.status, told)) {
    failure.which = FailureClass::kFinal;
    failure.is_unknown_model = true;
    failure.message += "the model is not known there: " + one_line(told.message);
    return failure;
  }
  if (told.is_error && !told.message.empty()) {
    failure.message += one_line(told.message);
  } else if (head.content_type.starts_with("text/html") || is_web_page(body)) {
    failure.message += meaning_of(head.status) + "; a web page came instead of JSON";
  } else {
    failure.message += meaning_of(head.status);
  }
  if (is_quota(told)) failure.which = FailureClass::kFinal;
  failure.path_may_be_wrong = head.status == 404 || head.status == 405;
  failure.is_bad_request = head.status == 400 || head.status == 413 || head.status == 422;
  // What the server itself says decides over the table, but not over what would cost twice.
  if (head.should_retry == "false") failure.which = FailureClass::kFinal;
  if (failure.retry_after_ms && *failure.retry_after_ms > kRetryAfterSecondsMax * 1000) {
    failure.which = FailureClass::kFinal;
    failure.message += "; it asks to wait " + std::to_string(*failure.retry_after_ms / 1000) + " s";
  }
  failure.counts_for_breaker = head.status >= 500 || head.status == 429 || head.status == 408;
  return failure;
}

bool is_web_page(std::string_view body) {
  const auto first = body.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && body[first] == '<';
}

UpstreamFailure failed_because(FailureClass which, std::string message) {
  UpstreamFailure failure;
  failure.which = which;
  failure.message = std::move(message);
  failure.counts_for_breaker = which != FailureClass::kCancelled;
  return failure;
}

UpstreamFailure failure_of_error_event(std::string_view json_text) {
  const Told told = told_by(parse_remote_json(json_text));
  UpstreamFailure failure;
  failure.status = 200;
  failure.is_unknown_model = is_unknown_model(0, told);
  failure.which =
      is_quota(told) || failure.is_unknown_model ? FailureClass::kFinal : FailureClass::kAmbiguous;
  failure.counts_for_breaker = failure.which == FailureClass::kAmbiguous;
  failure.message = "the remote ended with an error: " +
                    one_line(told.message.empty() ? json_text : std::string_view(told.message));
  return failure;
}

Error to_error(const UpstreamFailure& failure) {
  if (failure.which == FailureClass::kCancelled) return cancelled(failure.message);
  if (failure.is_bad_request) return invalid_argument(failure.message);
  const bool may_ask_again =
      failure.which == FailureClass::kSafe || failure.which == FailureClass::kRefused;
  return may_ask_again ? unavailable(failure.message) : remote_failed(failure.message);
}

}  // namespace engramd::server
