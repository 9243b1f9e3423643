#include "engine/checkpoint/regular_file.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace engramd::engine {
namespace {

Error system_failure(const std::string& path, const char* what) {
  const int code = errno;
  const std::string message =
      path + ": " + what + ": " + std::error_code(code, std::generic_category()).message();
  return code == ENOENT ? not_found(message) : environment_error(message);
}

}  // namespace

Result<RegularFile> RegularFile::open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO without a writer would wait for ever.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (descriptor < 0) return system_failure(path, "cannot open");
  RegularFile file(path, descriptor);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) return system_failure(path, "cannot stat");
  if (!S_ISREG(status.st_mode)) return invalid_argument(path + ": expected a regular file");
  file.bytes_ = status.st_size;
  return file;
}

RegularFile::RegularFile(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

RegularFile::RegularFile(RegularFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(other.bytes_) {}

RegularFile& RegularFile::operator=(RegularFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

RegularFile::~RegularFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<std::string> RegularFile::read(std::int64_t offset_bytes, std::int64_t length_bytes) const {
  std::string data(static_cast<std::size_t>(length_bytes), '\0');
  std::size_t done = 0;
  while (done < data.size()) {
    const ssize_t n = ::pread(descriptor_, data.data() + done, data.size() - done,
                              offset_bytes + static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return system_failure(path_, "cannot read");
    if (n == 0) return environment_error(path_ + ": became shorter while it was read");
    done += static_cast<std::size_t>(n);
  }
  return data;
}

Result<std::string> read_text_file(const std::string& path, std::int64_t bytes_max) {
  const auto file = RegularFile::open(path);
  if (!file) return file.error();
  if (file->bytes() > bytes_max) {
    return limit_exceeded(path + ": " + std::to_string(file->bytes()) +
                          " bytes are more than the limit of " + std::to_string(bytes_max));
  }
  return file->read(0, file->bytes());
}

}  // namespace engramd::engine
