// Resident memory of this process, from /proc. Any thread.
#pragma once

#include <cstdint>

namespace engramd::server {

std::int64_t process_resident_bytes();  // 0 where /proc cannot be read

}  // namespace engramd::server
