#include "server/transport/token_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mcp/base64.h"

namespace engramd::server {
namespace {

constexpr std::size_t kTokenRandomBytes = 32;
constexpr std::size_t kTokenFileBytesMax = 4096;

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

Error system_error(const std::string& path, const std::string& what) {
  return environment_error("token file " + path + ": " + what + ": " + std::strerror(errno));
}

Result<std::string> random_token() {
  std::array<char, kTokenRandomBytes> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return environment_error("no random bytes for the bearer token: " +
                             std::string(std::strerror(errno)));
  }
  return mcp::to_base64url({bytes.data(), bytes.size()});
}

Result<std::string> read_token(const std::string& path, int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return system_error(path, "cannot be examined");
  const std::string subject = "token file " + path;
  if (!S_ISREG(status.st_mode)) return environment_error(subject + ": expected a regular file");
  if (status.st_uid != ::geteuid()) {
    return environment_error(subject + " belongs to another user: remove it, a new one is made");
  }
  if ((status.st_mode & 077) != 0) {
    return environment_error(subject +
                             " may be read or written by others: `chmod 600` it if nobody has, "
                             "else remove it and a new one is made");
  }
  std::array<char, kTokenFileBytesMax> buffer;
  const ssize_t count = ::read(fd, buffer.data(), buffer.size());
  if (count < 0) return system_error(path, "cannot be read");
  std::string token(buffer.data(), static_cast<std::size_t>(count));
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  const bool visible =
      std::all_of(token.begin(), token.end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (!visible || token.size() < kTokenBytesMin || token.size() == kTokenFileBytesMax) {
    return environment_error(subject + ": expected one line of at least " +
                             std::to_string(kTokenBytesMin) +
                             " visible characters; remove it and a new one is made");
  }
  return token;
}

// Written beside its place and linked there, so that another daemon that starts at the same time
// never reads half a token; whoever links first has made it.
Result<bool> create_token(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  Result<std::string> token = random_token();
  if (token.has_error()) return token.error();
  std::string beside = path + ".XXXXXX";
  const File file(::mkostemp(beside.data(), O_CLOEXEC));  // O_EXCL, mode 0600
  if (file.fd() < 0) return system_error(path, "cannot be made (is the folder writable?)");
  const std::string line = *token + "\n";
  const bool written =
      ::write(file.fd(), line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
      ::fsync(file.fd()) == 0;
  const bool linked = written && (::link(beside.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const int reason = errno;
  ::unlink(beside.c_str());
  errno = reason;
  if (!linked) return system_error(path, "cannot be written");
  return true;
}

}  // namespace

Result<std::string> read_or_create_token(const std::string& path) {
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
  const File existing(::open(path.c_str(), kFlags));
  if (existing.fd() >= 0) return read_token(path, existing.fd());
  if (errno == ELOOP) {
    return environment_error("token file " + path + " is a link: remove it, a new file is made");
  }
  if (errno != ENOENT) return system_error(path, "cannot be opened");
  const Result<bool> created = create_token(path);
  if (created.has_error()) return created.error();
  const File made(::open(path.c_str(), kFlags));
  if (made.fd() < 0) return system_error(path, "cannot be opened");
  return read_token(path, made.fd());
}

}  // namespace engramd::server
