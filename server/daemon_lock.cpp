#include "server/daemon_lock.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace engramd::server {
namespace {

std::string holder_of(int fd) {
  std::array<char, 32> text = {};
  const ssize_t n_bytes = ::pread(fd, text.data(), text.size() - 1, 0);
  const std::string pid(text.data(), n_bytes > 0 ? static_cast<std::size_t>(n_bytes) : 0);
  return pid.substr(0, pid.find('\n'));
}

std::string held_by(int fd, const std::string& path) {
  return "an engramd daemon runs already (process " + holder_of(fd) + ", " + path + ")";
}

}  // namespace

Result<std::string> ready_state_folder(const std::string& state_folder) {
  if (state_folder.empty()) {
    return invalid_argument("there is no place for the daemon's state: set HOME or XDG_STATE_HOME");
  }
  std::error_code code;
  const bool made = std::filesystem::create_directories(state_folder, code);
  if (code) {
    return environment_error("cannot make the folder " + state_folder + ": " + code.message());
  }
  if (made) ::chmod(state_folder.c_str(), S_IRWXU);
  return state_folder;
}

std::string socket_path(const std::string& configured, const std::string& state_folder) {
  return configured.empty() ? state_folder + "/engramd.sock" : configured;
}

Result<DaemonLock> DaemonLock::take(const std::string& state_folder) {
  const std::string path = state_folder + "/engramd.lock";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) {
    return environment_error("cannot open " + path + ": " + std::strerror(errno));
  }
  DaemonLock lock(fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    return unavailable(held_by(fd, path) +
                       "; stop it first, or give this one another state folder with "
                       "XDG_STATE_HOME");
  }
  const std::string pid = std::to_string(::getpid()) + '\n';
  // Only people read it: a daemon that cannot write it is a daemon all the same.
  if (::ftruncate(fd, 0) == 0) [[maybe_unused]]
    const ssize_t written = ::pwrite(fd, pid.data(), pid.size(), 0);
  return lock;
}

std::string DaemonLock::holder(const std::string& state_folder) {
  const std::string path = state_folder + "/engramd.lock";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return "";
  // Shared, so that a daemon that starts meanwhile is the only one that could be in its way.
  const bool is_held = ::flock(fd, LOCK_SH | LOCK_NB) != 0;
  std::string text = is_held ? held_by(fd, path) : "";
  ::close(fd);
  return text;
}

DaemonLock::DaemonLock(DaemonLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

DaemonLock::~DaemonLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace engramd::server
