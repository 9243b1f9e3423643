#include "server/upstream/answer_reader.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "mcp/text.h"
#include "server/upstream/remote_json.h"

namespace engramd::server {
namespace {

using nlohmann::json;

constexpr std::size_t kShownBytesMax = 120;
constexpr std::int64_t kTokensMax = 1'000'000'000;  // of one answer; more is no count

std::optional<std::int64_t> count_of(const json* value) {
  if (value == nullptr || !value->is_number_integer()) return std::nullopt;
  const auto count = value->get<std::int64_t>();
  return count >= 0 && count <= kTokensMax ? std::optional(count) : std::nullopt;
}

// A text, or parts with texts.
std::string content_of(const json* content) {
  if (content == nullptr || !content->is_array()) return text_of(content);
  std::string text;
  for (const json& part : *content) text += text_of(member(part, "text"));
  return text;
}

UpstreamFailure unusable(std::string message) {
  UpstreamFailure failure = failed_because(FailureClass::kAmbiguous, std::move(message));
  failure.status = 200;
  return failure;
}

}  // namespace

AnswerReader::Piece AnswerReader::read(const SseEvent& event) {
  if (done_) return engine::ChatDelta();
  if (event.data == "[DONE]") {
    done_ = true;
    return engine::ChatDelta();
  }
  const json body = parse_remote_json(event.data);
  if (event.name == "error") return failure_of_error_event(event.data);
  if (body.is_discarded()) {
    return unusable("the remote's answer is not JSON: " +
                    mcp::quote(mcp::sanitise_text(event.data.substr(0, kShownBytesMax))));
  }
  if (member(body, "error") != nullptr) return failure_of_error_event(event.data);
  if (const std::string model = text_of(member(body, "model")); !model.empty()) {
    model_ = one_line(model);
  }
  if (const json* usage = member(body, "usage")) read_usage(*usage);
  const json* choices = member(body, "choices");
  const bool has_choice = choices != nullptr && choices->is_array() && !choices->empty();
  if (!has_choice || is_complete()) return engine::ChatDelta();
  return read_choice(choices->front());
}

void AnswerReader::read_usage(const json& usage) {
  if (const auto n = count_of(member(usage, "prompt_tokens"))) prompt_tokens_ = n;
  if (const auto n = count_of(member(usage, "completion_tokens"))) completion_tokens_ = n;
  if (const json* details = member(usage, "prompt_tokens_details")) {
    if (const auto n = count_of(member(*details, "cached_tokens"))) cached_prompt_tokens_ = n;
  }
  if (cached_prompt_tokens_ && prompt_tokens_) {
    cached_prompt_tokens_ = std::min(*cached_prompt_tokens_, *prompt_tokens_);
  }
}

AnswerReader::Piece AnswerReader::read_choice(const json& choice) {
  begun_ = true;
  engine::ChatDelta delta;
  const json* said = member(choice, "delta");
  if (said == nullptr) said = member(choice, "message");  // a whole answer in one event
  if (said != nullptr) {
    delta.text = content_of(member(*said, "content"));
    delta.reasoning = text_of(member(*said, "reasoning_content"));
    if (delta.reasoning.empty()) delta.reasoning = text_of(member(*said, "reasoning"));
    const json* const calls = member(*said, "tool_calls");
    if (calls != nullptr && !tool_calls_.push(*calls, delta.tool_calls)) {
      return unusable("the remote asks for more tool calls than 128, or for 16 MiB of them");
    }
  }
  if (const std::string reason = text_of(member(choice, "finish_reason")); !reason.empty()) {
    finish_reason_ = reason;
    if (!tool_calls_.finish(delta.tool_calls) && reason != "length") {
      return unusable("the remote asks for a tool with arguments that are not JSON");
    }
  }
  return delta;
}

engine::FinishReason AnswerReader::finish_reason() const {
  if (finish_reason_ == "length") return engine::FinishReason::kLength;
  if (finish_reason_ == "content_filter") return engine::FinishReason::kContentFilter;
  // "tool_call", "function_call": what some servers call it. Some say "stop" beside calls.
  return tool_calls_.empty() ? engine::FinishReason::kStop : engine::FinishReason::kToolCalls;
}

}  // namespace engramd::server
