#include "engine/engram/sha256.h"

#include <array>

#include <openssl/evp.h>

#include "config/assert.h"

namespace engramd::engine {

std::string sha256_hex(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int n_bytes = 0;
  ENGRAMD_ASSERT(
      EVP_Digest(bytes.data(), bytes.size(), digest.data(), &n_bytes, EVP_sha256(), nullptr) == 1);
  std::string hex;
  for (unsigned int i = 0; i < n_bytes; ++i) {
    hex += "0123456789abcdef"[digest[i] >> 4];
    hex += "0123456789abcdef"[digest[i] & 15];
  }
  return hex;
}

}  // namespace engramd::engine
