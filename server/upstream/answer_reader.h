// AnswerReader: the events of a streamed chat completion to what is said, thought and asked for,
// the end and the usage, believing nothing: an error may come with status 200, choices may be
// missing, null or empty, usage may come late or never. Complete only when the choice got a
// finish_reason. Pure; one per answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/runtime/chat_backend.h"
#include "server/upstream/failure.h"
#include "server/upstream/sse_parser.h"
#include "server/upstream/tool_calls.h"

namespace engramd::server {

class AnswerReader {
 public:
  using Piece = boost::system::result<engine::ChatDelta, UpstreamFailure>;
  // What this event adds; a failure ends the answer.
  Piece read(const SseEvent& event);

  bool is_done() const { return done_; }  // `[DONE]` came
  bool is_complete() const { return !finish_reason_.empty(); }
  bool has_begun() const { return begun_; }  // some choice came

  engine::FinishReason finish_reason() const;
  const std::string& model() const { return model_; }  // as the server names it
  std::optional<std::int64_t> prompt_tokens() const { return prompt_tokens_; }
  std::optional<std::int64_t> cached_prompt_tokens() const { return cached_prompt_tokens_; }
  std::optional<std::int64_t> completion_tokens() const { return completion_tokens_; }
  std::vector<engine::ToolCall> take_tool_calls() { return tool_calls_.take(); }

 private:
  void read_usage(const nlohmann::json& usage);
  Piece read_choice(const nlohmann::json& choice);

  bool done_ = false;
  bool begun_ = false;
  std::string finish_reason_;
  std::string model_;
  std::optional<std::int64_t> prompt_tokens_, cached_prompt_tokens_, completion_tokens_;
  ToolCalls tool_calls_;
};

}  // namespace engramd::server
