#include "server/daemon_link.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <utility>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/transport/framing.h"

namespace engramd::server {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using std::chrono::milliseconds;
using Protocol = asio::local::stream_protocol;

constexpr milliseconds kRetry{20};
constexpr milliseconds kStartTime{
    10'000};  // a daemon listens within milliseconds, before its model
constexpr std::int64_t kMessageBytesMax = std::int64_t{1} << 31;
constexpr int kSilentDaemonsMax =
    20;  // one that goes while its socket stays may be met a few times
constexpr std::size_t kReadBytes = 65536;
constexpr off_t kLogBytesMax = 1 << 20;

class Link final : public DaemonLink {
 public:
  Link(asio::io_context& io, std::string socket_path, Start start, Events events)
      : state_(std::make_shared<State>(io, std::move(socket_path), std::move(start),
                                       std::move(events))) {
    State::begin(state_);
  }
  ~Link() override {
    state_->over = true;
    state_->close();
    state_->timer.cancel();
  }

 private:
  struct State {
    State(asio::io_context& io, std::string path, Start start, Events given)
        : socket_path(std::move(path)),
          start_daemon(std::move(start)),
          events(std::move(given)),
          socket(io),
          timer(io),
          messages(kMessageBytesMax) {}

    // A daemon is looked for, and started once when there is none.
    static void begin(const std::shared_ptr<State>& self) {
      self->started = false;
      self->give_up_at = std::chrono::steady_clock::now() + kStartTime;
      connect(self);
    }

    static void connect(const std::shared_ptr<State>& self) {
      self->socket = Protocol::socket(self->timer.get_executor());
      self->socket.async_connect(Protocol::endpoint(self->socket_path), [self](error_code error) {
        if (self->over) return;
        if (!error) return self->on_connected(self);
        self->on_refused(self, error);
      });
    }

    void on_connected(const std::shared_ptr<State>& self) {
      messages = MessageReader(kMessageBytesMax);
      queue.clear();
      heard = false;
      read(self);
      events.connected([weak = std::weak_ptr<State>(self)](const std::string& message) {
        if (const auto alive = weak.lock()) alive->send(alive, message);
      });
    }

    void on_refused(const std::shared_ptr<State>& self, error_code error) {
      if (!std::exchange(started, true)) {
        if (const auto begun = start_daemon(); !begun) return fail(begun.error().message);
      } else if (std::chrono::steady_clock::now() > give_up_at) {
        return fail("the daemon that was started does not listen on " + socket_path + " (" +
                    error.message() + ")");
      }
      timer.expires_after(kRetry);
      timer.async_wait([self](error_code stopped) {
        if (!stopped && !self->over) connect(self);
      });
    }

    void fail(const std::string& why) {
      over = true;
      events.failed(why);
    }

    static void read(const std::shared_ptr<State>& self) {
      self->socket.async_read_some(
          asio::buffer(self->buffer), [self](error_code error, std::size_t n_bytes) {
            if (self->over) return;
            if (error) return self->on_lost(self);
            self->messages.push(
                {self->buffer.data(), n_bytes},
                [&](const std::string& message, Framing) { self->events.message(message); });
            if (!self->over) read(self);
          });
    }

    void send(const std::shared_ptr<State>& self, const std::string& message) {
      queue.push_back(message + '\n');
      if (queue.size() == 1) write(self);
    }

    static void write(const std::shared_ptr<State>& self) {
      asio::async_write(self->socket, asio::buffer(self->queue.front()),
                        [self](error_code error, std::size_t) {
                          if (error || self->over) return;  // reading notices it too
                          self->queue.pop_front();
                          if (!self->queue.empty()) write(self);
                        });
    }

    void on_lost(const std::shared_ptr<State>& self) {
      close();
      events.lost();
      n_silent = heard ? 0 : n_silent + 1;
      if (n_silent > kSilentDaemonsMax) {
        return fail("the daemon on " + socket_path + " ends as soon as it is asked");
      }
      begin(self);
    }

    void close() {
      error_code ignored;
      socket.close(ignored);
    }

    const std::string socket_path;
    const Start start_daemon;
    const Events events;
    Protocol::socket socket;
    asio::steady_timer timer;
    MessageReader messages;
    std::array<char, kReadBytes> buffer;
    std::deque<std::string> queue;
    std::chrono::steady_clock::time_point give_up_at;
    int n_silent = 0;  // daemons in a row that went without a word
    bool heard = false;
    bool started = false;
    bool over = false;
  };

  const std::shared_ptr<State> state_;
};

// In the forked process, where only system calls are allowed (signal-safety(7)).
[[noreturn]] void become_daemon(const char* program, char* const* arguments, int log_fd) {
  ::setsid();
  const pid_t child = ::fork();  // so that its parent is init, and nobody here waits for it
  if (child != 0) ::_exit(child < 0 ? 1 : 0);
  const int null_fd = ::open("/dev/null", O_RDWR);
  ::dup2(null_fd, STDIN_FILENO);
  ::dup2(log_fd, STDOUT_FILENO);
  ::dup2(log_fd, STDERR_FILENO);
  ::close_range(STDERR_FILENO + 1, ~0U, 0);
  ::execv(program, arguments);
  ::_exit(1);
}

}  // namespace

std::unique_ptr<DaemonLink> DaemonLink::open(asio::io_context& io, std::string socket_path,
                                             Start start, Events events) {
  return std::make_unique<Link>(io, std::move(socket_path), std::move(start), std::move(events));
}

Result<void> start_detached(const std::string& program, const std::vector<std::string>& arguments,
                            const std::string& log_path) {
  int log_fd =
      ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (log_fd < 0) {
    return environment_error("cannot write " + log_path + ": " + std::strerror(errno));
  }
  struct stat status = {};
  if (::fstat(log_fd, &status) == 0 && status.st_size > kLogBytesMax) {
    [[maybe_unused]] const int cut = ::ftruncate(log_fd, 0);
  }
  std::vector<char*> words = {const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments)
    words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) become_daemon(program.c_str(), words.data(), log_fd);
  ::close(log_fd);
  int how = 0;
  if (child < 0 || ::waitpid(child, &how, 0) < 0 || how != 0) {
    return environment_error(std::string("cannot start the daemon: ") + std::strerror(errno));
  }
  return {};
}

}  // namespace engramd::server
