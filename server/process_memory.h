// Memory of this process and of the machine, from /proc. Any thread.
#pragma once

#include <cstdint>

namespace engramd::server {

std::int64_t process_resident_bytes();  // 0 where /proc cannot be read
std::int64_t available_memory_bytes();  // what the machine can still give; 0 likewise

}  // namespace engramd::server
