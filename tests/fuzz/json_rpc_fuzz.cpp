// A peer may send any bytes: every line is answered or ignored, nothing crashes, nothing stays in
// flight, and what is sent is JSON.
// links: engramd_mcp
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "config/assert.h"
#include "mcp/dispatcher.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engramd::mcp;
  Registry registry;
  registry.tools = {{.name = "echo",
                     .input = {{.name = "text", .length_max = 100}},
                     .handler = [](const std::shared_ptr<ToolCall>& call) {
                       call->progress(1, 2, "half");
                       call->finish({.structured = call->arguments()});
                     }}};
  registry.prompts = {
      {.name = "greet",
       .arguments = {{.name = "name", .description = "who", .required = true}},
       .render = [](auto&) { return engramd::Result<std::vector<PromptMessage>>(); }}};
  const auto dispatcher = make_dispatcher(registry, {.message_bytes_max = 4096});
  const auto connection = dispatcher->connect([](const Outgoing& outgoing) {
    if (outgoing.message.empty()) return;
    ENGRAMD_ASSERT(json::accept(outgoing.message));
    ENGRAMD_ASSERT(outgoing.message.find('\n') == std::string::npos);
  });
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  while (!rest.empty()) {
    const std::size_t line = rest.find('\n');
    connection->receive(rest.substr(0, line));
    rest = line == std::string_view::npos ? std::string_view() : rest.substr(line + 1);
  }
  ENGRAMD_ASSERT(connection->in_flight() == 0);
  return 0;
}
