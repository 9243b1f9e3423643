#include "server/api/text_tokens.h"

#include <utility>

namespace engramd::server {

std::vector<engine::SampledToken> TextTokens::push(const engine::ChatDelta& delta) {
  text_bytes_ += static_cast<std::int64_t>(delta.text.size());
  if (delta.token) waiting_.push_back(*delta.token);
  std::vector<engine::SampledToken> out;
  while (!waiting_.empty() && waiting_.front().text_end <= text_bytes_) {
    begin_bytes_ = waiting_.front().text_end;
    out.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return out;
}

std::vector<engine::SampledToken> TextTokens::rest() {
  std::vector<engine::SampledToken> out;
  for (engine::SampledToken& token : waiting_) {
    if (begin_bytes_ >= text_bytes_) break;
    begin_bytes_ = token.text_end;
    out.push_back(std::move(token));
  }
  waiting_.clear();
  return out;
}

std::vector<engine::SampledToken> tokens_of(const engine::ChatResult& result) {
  std::vector<engine::SampledToken> out;
  const auto text_bytes = static_cast<std::int64_t>(result.text.size());
  std::int64_t begin_bytes = 0;
  for (const engine::SampledToken& token : result.tokens) {
    if (begin_bytes >= text_bytes && token.text_end > text_bytes) break;
    begin_bytes = token.text_end;
    out.push_back(token);
  }
  return out;
}

}  // namespace engramd::server
