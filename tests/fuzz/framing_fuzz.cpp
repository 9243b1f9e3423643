// What stands on the wire decides the messages, not the pieces it arrives in; none is longer than
// the limit and one byte.
//
// links: engramd_framing
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/assert.h"
#include "server/transport/framing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engramd::server;
  constexpr std::int64_t kMessageBytesMax = 64;
  using Messages = std::vector<std::pair<std::string, Framing>>;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto read = [&](std::size_t piece_bytes) {
    Messages messages;
    const auto keep = [&](std::string message, Framing framing) {
      ENGRAMD_ASSERT(message.size() <= kMessageBytesMax + 1);
      messages.emplace_back(std::move(message), framing);
    };
    MessageReader reader(kMessageBytesMax);
    for (std::size_t at = 0; at < bytes.size(); at += piece_bytes) {
      reader.push(bytes.substr(at, piece_bytes), keep);
    }
    reader.finish(keep);
    return messages;
  };
  const Messages messages = read(size + 1);
  ENGRAMD_ASSERT(read(1) == messages);
  ENGRAMD_ASSERT(read(3) == messages);
  return 0;
}
