// CRC32C (Castagnoli, RFC 3720 appendix B.4): the checksum of table pages and headers. The SSE4.2
// instruction where the CPU has it, a table otherwise. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace engramd::engine {

// Continues `crc`, the checksum of what came before; 0 to start.
std::uint32_t crc32c(const void* data, std::size_t n_bytes, std::uint32_t crc = 0);

// checksums[i] of pages[i], each of page_bytes (a multiple of 8). Three pages at a time, because
// the instruction takes three cycles and a new one can start in each.
void crc32c_pages(std::span<const std::uint8_t* const> pages, std::size_t page_bytes,
                  std::uint32_t* checksums);

// The two ways, for tests: the portable one, and whether the other is in use.
std::uint32_t crc32c_portable(const void* data, std::size_t n_bytes, std::uint32_t crc = 0);
bool crc32c_uses_sse42();

}  // namespace engramd::engine
