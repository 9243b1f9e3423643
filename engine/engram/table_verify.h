// Verifying a whole row file: header, sizes, the checksum of every page. Reads everything once,
// sequentially, in flat memory (but 4 bytes per page). Any thread; nothing is changed.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/engram/table_file.h"

namespace engramd::engine {

struct TableVerification {
  std::int64_t n_pages = 0;
  std::int64_t n_damaged = 0;
  std::vector<std::string> damaged;  // the first kDamagedListed, as TableFile::damaged_page says
};
inline constexpr std::int64_t kDamagedListed = 16;

Result<TableVerification> verify_table(
    const TableFile& file, const std::function<void(std::int64_t pages_done)>& progress = {},
    std::stop_token stop = {});

}  // namespace engramd::engine
