// PartialFile: a file of known size that grows under a name of its own until it is whole, and then
// gets its real one. Its first page is a journal of what is known to be on disk, so that the same
// job, started again, goes on from there; the writer puts the real first page over it at the end. A
// lock keeps a second process out. One thread. Format: TABLES.md. Not here: what is written
// (table_writer, table_export).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <unistd.h>

#include "config/result.h"

namespace engramd::engine {

class PartialFile {
 public:
  // Goes on with a file that the same job left; another one's, or a damaged one, starts over.
  static Result<PartialFile> open(const std::string& path, const std::string& job,
                                  std::int64_t file_bytes);
  PartialFile(PartialFile&& other) noexcept
      : path_(std::move(other.path_)),
        job_(std::move(other.job_)),
        descriptor_(std::exchange(other.descriptor_, -1)),
        pages_done_(other.pages_done_) {}
  PartialFile& operator=(PartialFile&&) = delete;
  ~PartialFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  int descriptor() const { return descriptor_; }
  // What record() said last of a file that was gone on with; counted as the writer likes.
  std::int64_t pages_done() const { return pages_done_; }
  Result<void> write(std::int64_t offset_bytes, const void* data, std::size_t n_bytes);
  Result<void> read(std::int64_t offset_bytes, void* data, std::size_t n_bytes) const;
  Result<void> sync();
  // Everything written so far is on disk before the journal says so.
  Result<void> record(std::int64_t pages_done);
  // Then syncs the folder.
  Result<void> rename_to(const std::string& path);

 private:
  PartialFile(std::string path, std::string job, int descriptor)
      : path_(std::move(path)), job_(std::move(job)), descriptor_(descriptor) {}
  std::int64_t read_journal() const;

  std::string path_;
  std::string job_;
  int descriptor_ = -1;
  std::int64_t pages_done_ = 0;
};

// A new file's name survives a crash once its folder is synced.
Result<void> sync_folder_of(const std::string& path);

}  // namespace engramd::engine
