// SHA-256 (FIPS 180-4), as lower-case hex. A thin wrapper of nettle: OpenSSL's archive would add
// its start-up and relocations, milliseconds of every start, for this one function.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <nettle/sha2.h>

namespace engramd::engine {

class Sha256 {  // of the bytes added since construction or restart(); one thread
 public:
  Sha256() { restart(); }
  void restart() { sha256_init(&context_); }
  void add(std::span<const std::uint8_t> bytes);
  std::string hex();  // and restarts

 private:
  sha256_ctx context_;
};

std::string sha256_hex(std::string_view bytes);

}  // namespace engramd::engine
