#include "engine/engram/sha256.h"

#include <array>

namespace engramd::engine {

void Sha256::add(std::span<const std::uint8_t> bytes) {
  sha256_update(&context_, bytes.size(), bytes.data());
}

std::string Sha256::hex() {
  std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest;
  sha256_digest(&context_, digest.size(), digest.data());
  std::string text;
  for (const std::uint8_t byte : digest) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash;
  hash.add({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  return hash.hex();
}

}  // namespace engramd::engine
