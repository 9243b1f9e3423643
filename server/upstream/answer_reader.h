// AnswerReader: the events of a streamed chat completion to text, end and usage, believing nothing:
// an error may come with status 200, choices may be missing, null or empty, usage may come late or
// never. Complete only when the choice got a finish_reason. Pure; one per answer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/upstream/failure.h"
#include "server/upstream/sse_parser.h"

namespace engramd::server {

class AnswerReader {
 public:
  // The text that this event adds; a failure ends the answer.
  boost::system::result<std::string, UpstreamFailure> read(const SseEvent& event);

  bool is_done() const { return done_; }  // `[DONE]` came
  bool is_complete() const { return !finish_reason_.empty(); }
  bool has_begun() const { return begun_; }  // some choice came

  const std::string& finish_reason() const { return finish_reason_; }
  const std::string& model() const { return model_; }  // as the server names it
  std::optional<std::int64_t> prompt_tokens() const { return prompt_tokens_; }
  std::optional<std::int64_t> cached_prompt_tokens() const { return cached_prompt_tokens_; }
  std::optional<std::int64_t> completion_tokens() const { return completion_tokens_; }
  std::int64_t reasoning_bytes() const { return reasoning_bytes_; }  // thought, not said

 private:
  bool done_ = false;
  bool begun_ = false;
  std::string finish_reason_;
  std::string model_;
  std::optional<std::int64_t> prompt_tokens_, cached_prompt_tokens_, completion_tokens_;
  std::int64_t reasoning_bytes_ = 0;
};

}  // namespace engramd::server
