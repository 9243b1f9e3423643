#include "engine/engram/sha256.h"

#include <array>

#include "engine/engram/hex.h"

namespace engramd::engine {

void Sha256::add(std::span<const std::uint8_t> bytes) {
  sha256_update(&context_, bytes.size(), bytes.data());
}

std::string Sha256::hex() {
  std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest;
  sha256_digest(&context_, digest.size(), digest.data());
  return hex_of_bytes({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash;
  hash.add({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
  return hash.hex();
}

}  // namespace engramd::engine
