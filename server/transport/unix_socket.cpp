#include "server/transport/unix_socket.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>
#include <filesystem>
#include <utility>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "server/transport/framing.h"

namespace engramd::server {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Protocol = asio::local::stream_protocol;

constexpr std::size_t kSocketReadBytes = 65536;
// A peer that has this much to read is not read from until it has.
constexpr std::int64_t kPauseReadingBytes = 1 << 20;
constexpr std::size_t kPathBytesMax = 107;  // sun_path of <sys/un.h>, with its terminator
constexpr std::chrono::milliseconds kAcceptPause{100};  // when there is no descriptor left

class UnixPeer final : public MessagePeer, public std::enable_shared_from_this<UnixPeer> {
 public:
  UnixPeer(Protocol::socket socket, const config::LimitOptions& limits)
      : socket_(std::move(socket)),
        messages_(limits.message_bytes_max),
        queue_bytes_max_(limits.send_queue_bytes_max) {}

  void listen(Events events) override {
    events_ = std::move(events);
    read();
  }

  void send(std::string message) override {
    if (closing_) return;
    if (queued_bytes_ > queue_bytes_max_) return drop();  // nobody reads
    std::string framed = frame_message(message, framing_);
    queued_bytes_ += static_cast<std::int64_t>(framed.size());
    queue_.push_back(std::move(framed));
    if (queue_.size() == 1) write();
  }

  std::int64_t queued_bytes() const override { return queued_bytes_; }

  void close() override {
    events_ = {};
    closing_ = true;
    if (queue_.empty()) shut();
  }

 private:
  void read() {
    if (reading_ || input_ended_ || queued_bytes_ > kPauseReadingBytes) return;
    reading_ = true;
    socket_.async_read_some(asio::buffer(buffer_),
                            [self = shared_from_this()](error_code error, std::size_t n_bytes) {
                              self->reading_ = false;
                              self->on_read(error, n_bytes);
                            });
  }

  void on_read(error_code error, std::size_t n_bytes) {
    const auto deliver = [this](std::string message, Framing framing) {
      framing_ = framing;
      if (events_.message) events_.message(std::move(message));
    };
    if (!error) {
      messages_.push({buffer_.data(), n_bytes}, deliver);
      return read();
    }
    input_ended_ = true;
    messages_.finish(deliver);
    drop();
  }

  void write() {
    asio::async_write(socket_, asio::buffer(queue_.front()),
                      [self = shared_from_this()](error_code error, std::size_t) {
                        if (error) return self->drop();
                        self->queued_bytes_ -=
                            static_cast<std::int64_t>(self->queue_.front().size());
                        self->queue_.pop_front();
                        if (!self->queue_.empty()) return self->write();
                        if (self->closing_) return self->shut();
                        self->read();
                      });
  }

  // The peer has gone, or is taken for gone. `closed` comes later: never inside a call of ours.
  void drop() {
    if (std::exchange(closing_, true)) return;
    shut();
    asio::post(socket_.get_executor(), [self = shared_from_this()] {
      const auto closed = std::exchange(self->events_, {}).closed;
      if (closed) closed();
    });
  }

  void shut() {
    error_code ignored;
    socket_.close(ignored);
  }

  Protocol::socket socket_;
  MessageReader messages_;
  const std::int64_t queue_bytes_max_;
  Events events_;
  Framing framing_ = Framing::kLines;  // of the latest message
  std::array<char, kSocketReadBytes> buffer_;
  std::deque<std::string> queue_;
  std::int64_t queued_bytes_ = 0;
  bool reading_ = false;
  bool input_ended_ = false;
  bool closing_ = false;
};

class Listener final : public UnixSocket {
 public:
  Listener(asio::io_context& io, std::string path, const config::LimitOptions& limits,
           MessagePeerHandler handler)
      : state_(std::make_shared<State>(io, limits, std::move(handler))), path_(std::move(path)) {}

  ~Listener() override {
    stop_accepting();
    ::unlink(path_.c_str());
  }

  Result<void> open() {
    error_code error;
    ::unlink(path_.c_str());
    const mode_t mask = ::umask(0177);  // the file is the user's alone from the beginning
    state_->acceptor.open(Protocol(), error);
    if (!error) state_->acceptor.bind(Protocol::endpoint(path_), error);
    ::umask(mask);
    if (!error) state_->acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      return environment_error("cannot listen on the socket " + path_ + ": " + error.message() +
                               "; choose another with --socket");
    }
    accept(state_);
    return {};
  }

  void stop_accepting() override {
    error_code ignored;
    state_->acceptor.close(ignored);
    state_->pause.cancel();
  }

 private:
  struct State {
    State(asio::io_context& io, const config::LimitOptions& given, MessagePeerHandler on_peer)
        : acceptor(io), pause(io), limits(given), handler(std::move(on_peer)) {}
    Protocol::acceptor acceptor;
    asio::steady_timer pause;
    const config::LimitOptions limits;
    const MessagePeerHandler handler;
  };

  static void accept(const std::shared_ptr<State>& state) {
    state->acceptor.async_accept([state](error_code error, Protocol::socket socket) {
      if (!state->acceptor.is_open()) return;
      if (!error) {
        state->handler(std::make_shared<UnixPeer>(std::move(socket), state->limits));
        return accept(state);
      }
      state->pause.expires_after(kAcceptPause);
      state->pause.async_wait([state](error_code stopped) {
        if (!stopped) accept(state);
      });
    });
  }

  const std::shared_ptr<State> state_;
  const std::string path_;
};

Result<void> check_folder(const std::string& folder) {
  struct stat status = {};
  if (::stat(folder.c_str(), &status) != 0) {
    return environment_error("the folder of the socket, " + folder +
                             ", is not there; make it, or choose another place with --socket");
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (status.st_mode & S_ISVTX) == 0) {
    return environment_error("others may write to " + folder + ", the folder of the socket; take " +
                             "that right away (chmod go-w) or choose another with --socket");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<UnixSocket>> UnixSocket::listen(asio::io_context& io,
                                                       const std::string& path,
                                                       const config::LimitOptions& limits,
                                                       MessagePeerHandler handler) {
  if (path.size() > kPathBytesMax) {
    return invalid_argument("the socket's path has " + std::to_string(path.size()) +
                            " bytes, the system takes " + std::to_string(kPathBytesMax) +
                            "; choose a shorter one with --socket");
  }
  const std::string folder = std::filesystem::path(path).parent_path().string();
  if (auto usable = check_folder(folder.empty() ? "." : folder); !usable) return usable.error();
  auto listener = std::make_unique<Listener>(io, path, limits, std::move(handler));
  if (auto opened = listener->open(); !opened) return opened.error();
  return std::unique_ptr<UnixSocket>(std::move(listener));
}

}  // namespace engramd::server
