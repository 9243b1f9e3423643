// MCP headers against a body. First line: a header's value.
// links: engramd_mcp
#include <cstdint>
#include <optional>
#include <string_view>

#include "mcp/http_rules.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engramd::mcp;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t line = input.find('\n');
  const std::string_view value = input.substr(0, line);
  const std::string_view body =
      line == std::string_view::npos ? std::string_view() : input.substr(line + 1);
  const Incoming incoming = parse_incoming(body, 64);
  for (const std::string_view named :
       {http::kVersionHeader, http::kMethodHeader, http::kNameHeader}) {
    const http::Header header = [&](std::string_view name) -> std::optional<std::string_view> {
      if (name == named) return value;
      if (name == http::kVersionHeader) return "2026-07-28";
      return name == http::kMethodHeader ? std::optional<std::string_view>("tools/call")
                                         : std::nullopt;
    };
    http::is_modern(incoming, header);
    http::expects_answer(incoming);
    http::opens_session(incoming);
    for (const Message& message : incoming.messages) http::check_headers(message, header);
  }
  return 0;
}
