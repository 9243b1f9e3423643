// An overlay file is untrusted: reading its edits ends without a crash and stays inside the file.
// links: engramd_live_tables
#include <cstddef>
#include <cstdint>
#include <string>

#include <sys/mman.h>
#include <unistd.h>

#include "config/assert.h"
#include "engine/engram/overlay_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engramd::engine;
  const int descriptor = ::memfd_create("overlay", MFD_CLOEXEC);
  ENGRAMD_ASSERT(descriptor >= 0);
  ENGRAMD_ASSERT(::write(descriptor, data, size) == static_cast<ssize_t>(size));
  constexpr std::int64_t kRowBytes = 33;
  if (auto file = OverlayFile::open("/proc/self/fd/" + std::to_string(descriptor), 2, kRowBytes)) {
    OverlayFile::Reader reader(*file);
    std::int64_t n = 0;
    for (Edit edit; reader.next(edit); ++n) {
      ENGRAMD_ASSERT(edit.image.size() == static_cast<std::size_t>(kRowBytes));
    }
    ENGRAMD_ASSERT(n == file->n_edits());
  }
  ::close(descriptor);
  return 0;
}
