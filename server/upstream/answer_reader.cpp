#include "server/upstream/answer_reader.h"

#include <nlohmann/json.hpp>

#include "mcp/text.h"

namespace engramd::server {
namespace {

using nlohmann::json;

constexpr std::size_t kShownBytesMax = 120;

const json* member(const json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::string text_of(const json* value) {
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

std::optional<std::int64_t> count_of(const json* value) {
  if (value == nullptr || !value->is_number_integer() || value->get<std::int64_t>() < 0) {
    return std::nullopt;
  }
  return value->get<std::int64_t>();
}

// A text, or parts with texts.
std::string content_of(const json* content) {
  if (content == nullptr || !content->is_array()) return text_of(content);
  std::string text;
  for (const json& part : *content) text += text_of(member(part, "text"));
  return text;
}

UpstreamFailure unreadable(std::string_view data) {
  UpstreamFailure failure = failed_because(
      FailureClass::kAmbiguous,
      "the remote's answer is not JSON: " +
          mcp::quote(mcp::sanitise_text(std::string(data.substr(0, kShownBytesMax)))));
  failure.status = 200;
  return failure;
}

}  // namespace

boost::system::result<std::string, UpstreamFailure> AnswerReader::read(const SseEvent& event) {
  if (done_) return std::string();
  if (event.data == "[DONE]") {
    done_ = true;
    return std::string();
  }
  const json body = json::parse(event.data, nullptr, false);
  if (event.name == "error") return failure_of_error_event(event.data);
  if (body.is_discarded()) return unreadable(event.data);
  if (member(body, "error") != nullptr) return failure_of_error_event(event.data);
  if (const std::string model = text_of(member(body, "model")); !model.empty()) model_ = model;
  if (const json* usage = member(body, "usage")) {
    if (const auto n = count_of(member(*usage, "prompt_tokens"))) prompt_tokens_ = n;
    if (const auto n = count_of(member(*usage, "completion_tokens"))) completion_tokens_ = n;
    if (const json* details = member(*usage, "prompt_tokens_details")) {
      if (const auto n = count_of(member(*details, "cached_tokens"))) cached_prompt_tokens_ = n;
    }
  }
  const json* choices = member(body, "choices");
  if (choices == nullptr || !choices->is_array() || choices->empty()) return std::string();
  const json& choice = choices->front();
  begun_ = true;
  if (const std::string reason = text_of(member(choice, "finish_reason")); !reason.empty()) {
    finish_reason_ = reason;
  }
  const json* said = member(choice, "delta");
  if (said == nullptr) said = member(choice, "message");  // a whole answer in one event
  if (said == nullptr) return std::string();
  for (const char* name : {"reasoning_content", "reasoning"}) {
    reasoning_bytes_ += static_cast<std::int64_t>(text_of(member(*said, name)).size());
  }
  return content_of(member(*said, "content"));
}

}  // namespace engramd::server
