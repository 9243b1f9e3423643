#include "mcp/base64.h"

#include <cstdint>

#include <nettle/base64.h>

namespace engramd::mcp {

std::string to_base64(std::string_view bytes) {
  std::string text(BASE64_ENCODE_RAW_LENGTH(bytes.size()), '\0');
  base64_encode_raw(text.data(), bytes.size(), reinterpret_cast<const std::uint8_t*>(bytes.data()));
  return text;
}

std::string to_base64url(std::string_view bytes) {
  std::string text(BASE64_ENCODE_RAW_LENGTH(bytes.size()), '\0');
  base64_encode_ctx context;
  base64url_encode_init(&context);
  std::size_t n = base64_encode_update(&context, text.data(), bytes.size(),
                                       reinterpret_cast<const std::uint8_t*>(bytes.data()));
  n += base64_encode_final(&context, text.data() + n);
  text.resize(n);
  text.erase(text.find_last_not_of('=') + 1);
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  base64_decode_ctx context;
  base64_decode_init(&context);
  std::string bytes(BASE64_DECODE_LENGTH(text.size()) + 1, '\0');
  std::size_t n_bytes = bytes.size();
  if (base64_decode_update(&context, &n_bytes, reinterpret_cast<std::uint8_t*>(bytes.data()),
                           text.size(), text.data()) == 0 ||
      base64_decode_final(&context) == 0) {
    return std::nullopt;
  }
  bytes.resize(n_bytes);
  return bytes;
}

}  // namespace engramd::mcp
