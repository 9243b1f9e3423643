#include "engine/engram/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace engramd::engine {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // 0x1EDC6F41 with its bits reversed

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<std::uint32_t, 256> kTable = make_table();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc32c_sse42(const void* data, std::size_t n_bytes,
                                                             std::uint32_t crc) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::uint64_t state = ~crc;
  for (; n_bytes >= 8; bytes += 8, n_bytes -= 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes, 8);
    state = _mm_crc32_u64(state, word);
  }
  auto tail = static_cast<std::uint32_t>(state);
  for (; n_bytes > 0; ++bytes, --n_bytes) tail = _mm_crc32_u8(tail, *bytes);
  return ~tail;
}

__attribute__((target("sse4.2"))) void crc32c_three(const std::uint8_t* const* pages,
                                                    std::size_t page_bytes,
                                                    std::uint32_t* checksums) {
  std::uint64_t a = ~0U, b = ~0U, c = ~0U;
  for (std::size_t i = 0; i < page_bytes; i += 8) {
    std::uint64_t words[3];
    std::memcpy(&words[0], pages[0] + i, 8);
    std::memcpy(&words[1], pages[1] + i, 8);
    std::memcpy(&words[2], pages[2] + i, 8);
    a = _mm_crc32_u64(a, words[0]);
    b = _mm_crc32_u64(b, words[1]);
    c = _mm_crc32_u64(c, words[2]);
  }
  checksums[0] = ~static_cast<std::uint32_t>(a);
  checksums[1] = ~static_cast<std::uint32_t>(b);
  checksums[2] = ~static_cast<std::uint32_t>(c);
}
#endif

}  // namespace

void crc32c_pages(std::span<const std::uint8_t* const> pages, std::size_t page_bytes,
                  std::uint32_t* checksums) {
  std::size_t i = 0;
#if defined(__x86_64__)
  if (crc32c_uses_sse42()) {
    for (; i + 3 <= pages.size(); i += 3) crc32c_three(&pages[i], page_bytes, checksums + i);
  }
#endif
  for (; i < pages.size(); ++i) checksums[i] = crc32c(pages[i], page_bytes);
}

std::uint32_t crc32c_portable(const void* data, std::size_t n_bytes, std::uint32_t crc) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  crc = ~crc;
  for (std::size_t i = 0; i < n_bytes; ++i) {
    crc = kTable[(crc ^ bytes[i]) & 0xFF] ^ (crc >> 8);
  }
  return ~crc;
}

bool crc32c_uses_sse42() {
#if defined(__x86_64__)
  static const bool supported = __builtin_cpu_supports("sse4.2") != 0;
  return supported;
#else
  return false;
#endif
}

std::uint32_t crc32c(const void* data, std::size_t n_bytes, std::uint32_t crc) {
#if defined(__x86_64__)
  if (crc32c_uses_sse42()) return crc32c_sse42(data, n_bytes, crc);
#endif
  return crc32c_portable(data, n_bytes, crc);
}

}  // namespace engramd::engine
