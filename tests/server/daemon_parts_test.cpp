// The small parts of a daemon: its lock, its socket's place, what systemd hears.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/daemon_lock.h"
#include "server/daemon_settings.h"
#include "server/service_manager.h"
#include "tests/engine/checkpoint/temporary_folder.h"

namespace engramd::server {
namespace {

using engine::TemporaryFolder;

TEST(DaemonLock, IsHeldByOneAndNamesIt) {
  const TemporaryFolder folder;
  {
    const auto first = DaemonLock::take(folder.path.string());
    ASSERT_TRUE(first.has_value());
    const auto second = DaemonLock::take(folder.path.string());
    ASSERT_TRUE(second.has_error());
    EXPECT_EQ(second.error().kind, ErrorKind::kUnavailable);
    EXPECT_NE(second.error().message.find(std::to_string(::getpid())), std::string::npos);
  }
  EXPECT_TRUE(DaemonLock::take(folder.path.string()).has_value());
}

TEST(DaemonLock, FollowsNoLink) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("/dev/null", (folder.path / "engramd.lock").string());
  EXPECT_TRUE(DaemonLock::take(folder.path.string()).has_error());
}

TEST(StateFolder, IsMadeForTheUserAlone) {
  const TemporaryFolder folder;
  const std::string path = (folder.path / "a/b").string();
  ASSERT_TRUE(ready_state_folder(path).has_value());
  struct stat status = {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  EXPECT_TRUE(ready_state_folder("").has_error());
  EXPECT_TRUE(ready_state_folder("/proc/engramd").has_error());
}

TEST(DaemonSettings, AreComparedByKey) {
  const TemporaryFolder folder;
  const std::string path = folder.path.string();
  EXPECT_TRUE(differing_settings(path, {{"a.b", "1"}}).empty());  // no daemon to differ from
  ASSERT_TRUE(write_daemon_settings(path, {{"a.b", "1"}, {"c.d", "x=y"}}).has_value());
  EXPECT_TRUE(differing_settings(path, {{"a.b", "1"}, {"c.d", "x=y"}}).empty());
  EXPECT_EQ(differing_settings(path, {{"a.b", "2"}, {"e.f", "3"}}),
            (std::vector<std::string>{"a.b is \"1\" there and \"2\" here",
                                      "c.d is \"x=y\" there and its default here",
                                      "e.f is its default there and \"3\" here"}));
}

class NotifySocket {
 public:
  explicit NotifySocket(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~NotifySocket() { ::close(fd_); }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;
  std::string received() const {
    char text[256];
    const ssize_t n_bytes = ::recv(fd_, text, sizeof text, MSG_DONTWAIT);
    return n_bytes < 0 ? "" : std::string(text, static_cast<std::size_t>(n_bytes));
  }

 private:
  const int fd_;
};

config::Environment environment(const std::vector<std::pair<std::string, std::string>>& values) {
  config::Environment all;
  for (const auto& [name, value] : values) all[name].value = value;
  return all;
}

TEST(ServiceManager, HearsWhatItIsTold) {
  const TemporaryFolder folder;
  const std::string path = (folder.path / "notify").string();
  const NotifySocket socket(path);
  const ServiceManager manager(
      environment({{"NOTIFY_SOCKET", path}, {"WATCHDOG_USEC", "30000000"}}));
  manager.notify("READY=1");
  EXPECT_EQ(socket.received(), "READY=1");
  EXPECT_EQ(manager.watchdog_interval(), std::chrono::milliseconds(15000));
}

TEST(ServiceManager, IsSilentWithoutOne) {
  const ServiceManager none(environment({}));
  none.notify("READY=1");
  EXPECT_FALSE(none.watchdog_interval());
  EXPECT_FALSE(ServiceManager(environment({{"WATCHDOG_USEC", "30000000"}, {"WATCHDOG_PID", "1"}}))
                   .watchdog_interval());
  EXPECT_FALSE(ServiceManager(environment({{"WATCHDOG_USEC", "soon"}})).watchdog_interval());
}

}  // namespace
}  // namespace engramd::server
