#include "engine/engram/partial_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "engine/engram/crc32c.h"
#include "engine/engram/table_file.h"

namespace engramd::engine {
namespace {

constexpr char kJournalMagic[] = "ENGRAMDP";

// First page of a partial file. Its magic differs from a table's, so that nothing opens it.
struct Journal {
  char magic[8];
  char job[64];  // hex SHA-256 of header and content identity
  std::int64_t pages_done;
  std::uint32_t crc;  // of the bytes before it
};

}  // namespace

Result<PartialFile> PartialFile::open(const std::string& path, const std::string& job,
                                      std::int64_t file_bytes) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (descriptor < 0) return file_failure(path, "cannot create");
  PartialFile file(path, job, descriptor);
  if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    return unavailable(path + ": another process is writing it; wait for that one to end");
  }
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return file_failure(path, "cannot stat");
  file.pages_done_ = status.st_size == file_bytes ? file.read_journal() : 0;
  if (file.pages_done_ == 0 &&
      (::ftruncate(descriptor, 0) != 0 || ::ftruncate(descriptor, file_bytes) != 0)) {
    return file_failure(path, "cannot set the file's size");
  }
  return file;
}

std::int64_t PartialFile::read_journal() const {
  Journal journal{};
  if (!read(0, &journal, sizeof journal)) return 0;
  const bool ours = std::memcmp(journal.magic, kJournalMagic, sizeof journal.magic) == 0 &&
                    std::memcmp(journal.job, job_.data(), sizeof journal.job) == 0 &&
                    journal.crc == crc32c(&journal, offsetof(Journal, crc));
  return ours ? std::max<std::int64_t>(journal.pages_done, 0) : 0;
}

Result<void> PartialFile::write(std::int64_t offset_bytes, const void* data, std::size_t n_bytes) {
  const auto* bytes = static_cast<const char*>(data);
  while (n_bytes > 0) {
    const ssize_t n = ::pwrite(descriptor_, bytes, n_bytes, offset_bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return file_failure(path_, errno == ENOSPC
                                     ? "cannot write (free space and start the same command again: "
                                       "it continues)"
                                     : "cannot write");
    }
    bytes += n;
    offset_bytes += n;
    n_bytes -= static_cast<std::size_t>(n);
  }
  return {};
}

Result<void> PartialFile::read(std::int64_t offset_bytes, void* data, std::size_t n_bytes) const {
  auto* bytes = static_cast<char*>(data);
  while (n_bytes > 0) {
    const ssize_t n = ::pread(descriptor_, bytes, n_bytes, offset_bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return file_failure(path_, "cannot read");
    bytes += n;
    offset_bytes += n;
    n_bytes -= static_cast<std::size_t>(n);
  }
  return {};
}

Result<void> PartialFile::sync() {
  if (::fsync(descriptor_) != 0) return file_failure(path_, "cannot sync");
  return {};
}

Result<void> PartialFile::record(std::int64_t pages_done) {
  if (const auto synced = sync(); !synced) return synced.error();
  Journal journal{};
  std::memcpy(journal.magic, kJournalMagic, sizeof journal.magic);
  std::memcpy(journal.job, job_.data(), sizeof journal.job);
  journal.pages_done = pages_done;
  journal.crc = crc32c(&journal, offsetof(Journal, crc));
  if (const auto written = write(0, &journal, sizeof journal); !written) return written.error();
  return sync();
}

Result<void> PartialFile::rename_to(const std::string& path) {
  if (::rename(path_.c_str(), path.c_str()) != 0) {
    return file_failure(path, "cannot rename the finished file");
  }
  return sync_folder_of(path);
}

Result<void> sync_folder_of(const std::string& path) {
  const auto parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  const int directory = ::open(folder.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY);
  if (directory < 0) return file_failure(folder, "cannot open");
  const bool synced = ::fsync(directory) == 0;
  ::close(directory);
  if (!synced) return file_failure(folder, "cannot sync");
  return {};
}

}  // namespace engramd::engine
