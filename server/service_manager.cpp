#include "server/service_manager.h"

#include <charconv>
#include <cstddef>
#include <cstring>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace engramd::server {

ServiceManager::ServiceManager(const config::Environment& environment) {
  const auto value_of = [&](std::string_view name) {
    return config::find_variable(environment, name).value_or(std::string());
  };
  socket_ = value_of("NOTIFY_SOCKET");
  const std::string pid = value_of("WATCHDOG_PID");
  if (!pid.empty() && pid != std::to_string(::getpid())) return;  // another process's watchdog
  const std::string text = value_of("WATCHDOG_USEC");
  std::int64_t microseconds = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), microseconds);
  if (parsed.ec != std::errc() || microseconds < 2000) return;
  watchdog_interval_ = std::chrono::milliseconds(microseconds / 2000);
}

void ServiceManager::notify(const std::string& state) const {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket_.size() < 2 || socket_.size() >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';  // the abstract name space
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size());
  // Nobody can be told when this fails.
  [[maybe_unused]] const ssize_t sent =
      ::sendto(fd, state.data(), state.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), length);
  ::close(fd);
}

}  // namespace engramd::server
