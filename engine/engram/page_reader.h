// PageReader: many 4 KiB pages of one file in one go, as deep as the drive likes. io_uring where
// the kernel lets us (containers often refuse it), a pool of pread threads otherwise; pages that
// are in the page cache are copied by the caller's own thread in both. One caller at a time.
// Not here: what is in a page, its checksum, caching (table_rows).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "config/result.h"

namespace engramd::engine {

struct PageReaderOptions {
  int queue_depth = 128;   // 64 to 256 suits NVMe drives
  bool direct_io = false;  // past the page cache; falls back where the file system cannot
  bool use_io_uring = true;
};

// What to do with pages that have come, on the caller's thread while others are on their way.
using PagesArrived = std::function<void(std::span<const std::size_t> indices)>;

class PageReader {
 public:
  virtual ~PageReader() = default;
  virtual const char* name() const = 0;  // "io_uring", "pread"
  virtual bool direct_io() const = 0;    // as it turned out
  virtual int depth() const = 0;         // most pages in flight
  // Page at offsets_bytes[i] into pages + i * 4096; `pages` is aligned to 4096. `arrived` (or none)
  // gets every index i once, in any order. A stop is obeyed between pages; nothing is in flight
  // afterwards.
  virtual Result<void> read(std::span<const std::int64_t> offsets_bytes, std::uint8_t* pages,
                            const PagesArrived& arrived, std::stop_token stop) = 0;
};

// `descriptor`: of an open regular file; it is opened a second time, so the caller may close it.
Result<std::unique_ptr<PageReader>> make_page_reader(const std::string& path, int descriptor,
                                                     const PageReaderOptions& options);

// Memory aligned to a page.
struct FreeDeleter {
  void operator()(void* pointer) const;
};
using PageBuffer = std::unique_ptr<std::uint8_t, FreeDeleter>;
PageBuffer make_page_buffer(std::int64_t n_pages);

}  // namespace engramd::engine
