// An Anthropic messages request in OpenAI's words, for a remote that speaks only those: tools and
// their calls and results, images, thinking, sampling. Pure; what does not fit is left out, since
// the request's own parser has refused what is wrong. Not here: answers (anthropic_messages).
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace engramd::server {

nlohmann::json anthropic_to_openai(const nlohmann::json& request);

}  // namespace engramd::server
