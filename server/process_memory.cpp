#include "server/process_memory.h"

#include <fstream>
#include <string>

#include <unistd.h>

namespace engramd::server {

std::int64_t process_resident_bytes() {
  std::ifstream statm("/proc/self/statm");  // proc(5): total and resident size, in pages
  std::int64_t total_pages = 0;
  std::int64_t resident_pages = 0;
  if (!(statm >> total_pages >> resident_pages)) return 0;
  return resident_pages * ::sysconf(_SC_PAGESIZE);
}

std::int64_t available_memory_bytes() {
  std::ifstream meminfo("/proc/meminfo");  // proc(5): "MemAvailable:   123 kB"
  for (std::string line; std::getline(meminfo, line);) {
    if (line.starts_with("MemAvailable:")) return std::stoll(line.substr(13)) * 1024;
  }
  return 0;
}

}  // namespace engramd::server
