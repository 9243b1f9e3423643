// links: engramd_api_requests
// Bodies of HTTP requests are untrusted: each parser takes them or refuses them with a message.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "config/assert.h"
#include "server/api/anthropic_request.h"
#include "server/api/anthropic_to_openai.h"
#include "server/api/openai_chat_request.h"
#include "server/api/openai_completions_request.h"

using namespace engramd::server;

namespace {

template <class T>
void check(const ApiResult<T>& parsed) {
  ENGRAMD_ASSERT(parsed.has_value() || !parsed.error().message.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const engramd::config::Options options;
  check(parse_openai_chat(body, options));
  check(parse_openai_completion(body, options));
  const auto messages = parse_anthropic(body, options, AnthropicCall::kMessages);
  check(messages);
  if (messages.has_value()) {
    ENGRAMD_ASSERT(nlohmann::json::accept(anthropic_to_openai(body)));
  }
  return 0;
}
