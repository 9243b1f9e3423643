#include "engine/engram/table_verify.h"

#include <algorithm>

#include "engine/engram/crc32c.h"

namespace engramd::engine {

Result<TableVerification> verify_table(const TableFile& file,
                                       const std::function<void(std::int64_t pages_done)>& progress,
                                       std::stop_token stop) {
  constexpr std::int64_t kBatchPages = 256;
  const auto checksums = file.read_checksums();
  if (!checksums) return checksums.error();
  TableVerification result;
  result.n_pages = file.header().n_pages();
  std::vector<std::uint8_t> pages(kBatchPages * kTablePageBytes);
  for (std::int64_t first = 0; first < result.n_pages; first += kBatchPages) {
    if (stop.stop_requested()) return cancelled("table verify was stopped");
    const std::int64_t n = std::min(kBatchPages, result.n_pages - first);
    const auto read = file.read(file.header().header_bytes + first * kTablePageBytes,
                                n * kTablePageBytes, pages.data());
    if (!read) return read.error();
    for (std::int64_t i = 0; i < n; ++i) {
      if (crc32c(pages.data() + i * kTablePageBytes, kTablePageBytes) ==
          (*checksums)[static_cast<std::size_t>(first + i)]) {
        continue;
      }
      if (++result.n_damaged <= kDamagedListed) {
        result.damaged.push_back(file.damaged_page(first + i).message);
      }
    }
    if (progress) progress(first + n);
  }
  return result;
}

}  // namespace engramd::engine
