// Token counts as OpenAI words them. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "engine/runtime/chat_backend.h"

namespace engramd::server {

class UsageCounter {
 public:
  // shares_prompt: a further choice of the same prompt, whose tokens count once.
  void add(const engine::ChatResult& result, bool shares_prompt);
  nlohmann::json to_json() const;  // null when a remote did not report

 private:
  bool is_known_ = true;
  std::int64_t prompt_tokens_ = 0, cached_prompt_tokens_ = 0, completion_tokens_ = 0;
};

}  // namespace engramd::server
