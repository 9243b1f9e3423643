#include "server/process_memory.h"

#include <fstream>

#include <unistd.h>

namespace engramd::server {

std::int64_t process_resident_bytes() {
  std::ifstream statm("/proc/self/statm");  // proc(5): total and resident size, in pages
  std::int64_t total_pages = 0;
  std::int64_t resident_pages = 0;
  if (!(statm >> total_pages >> resident_pages)) return 0;
  return resident_pages * ::sysconf(_SC_PAGESIZE);
}

}  // namespace engramd::server
