// An Anthropic messages request in OpenAI's words, for a remote that speaks only those: tools and
// their calls and results, images, thinking, sampling; the keys of schemas stay in their order.
// Pure. Not here: what is refused (anthropic_request), answers (anthropic_messages).
#pragma once

#include <string>
#include <string_view>

namespace engramd::server {

// `request` is JSON that parse_anthropic() took.
std::string anthropic_to_openai(std::string_view request);

}  // namespace engramd::server
