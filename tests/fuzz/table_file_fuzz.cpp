// links: engramd_table
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "engine/engram/crc32c.h"
#include "engine/engram/table_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engramd::engine;
  std::string file(reinterpret_cast<const char*>(data), size);
  std::uint32_t header_bytes = 0;
  if (size >= 20) std::memcpy(&header_bytes, data + 16, 4);
  if (header_bytes >= 4 && header_bytes <= size) {  // the checksum would stop every mutation
    const std::uint32_t crc = crc32c(file.data(), header_bytes - 4);
    std::memcpy(file.data() + header_bytes - 4, &crc, 4);
  }
  const auto header = parse_table_header(file, static_cast<std::int64_t>(size));
  if (!header) return 0;
  for (const TableSection& section : header->sections) {  // what open() promises: inside the file
    ENGRAMD_ASSERT(section.data_offset_bytes >= header->header_bytes);
    ENGRAMD_ASSERT(section.data_offset_bytes + section.n_data_pages * kTablePageBytes <=
                   header->checksums_offset_bytes);
    ENGRAMD_ASSERT(section.n_data_pages * header->rows_per_page >= section.n_rows);
  }
  ENGRAMD_ASSERT(header->file_bytes == static_cast<std::int64_t>(size));
  return 0;
}
