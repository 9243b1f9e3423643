#include "server/api/openai_usage.h"

#include <nlohmann/json.hpp>

namespace engramd::server {

void UsageCounter::add(const engine::ChatResult& result, bool shares_prompt) {
  is_known_ = is_known_ && result.usage_source != engine::UsageSource::kEstimated;
  completion_tokens_ += result.completion_tokens;
  if (shares_prompt) return;
  prompt_tokens_ += result.prompt_tokens;
  cached_prompt_tokens_ += result.cached_prompt_tokens;
}

nlohmann::json UsageCounter::to_json() const {
  if (!is_known_) return nullptr;
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", completion_tokens_},
          {"total_tokens", prompt_tokens_ + completion_tokens_},
          {"prompt_tokens_details", {{"cached_tokens", cached_prompt_tokens_}}},
          {"completion_tokens_details", {{"reasoning_tokens", 0}}}};
}

}  // namespace engramd::server
