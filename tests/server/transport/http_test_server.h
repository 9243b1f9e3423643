// A real HttpServer on a loopback port with its own io thread, and clients with blocking sockets
// that the tests drive byte by byte. A wait that takes 30 seconds is a failure.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "server/transport/http_server.h"

namespace engramd::server {

inline constexpr std::chrono::seconds kTestPatience{30};

// An event of the io thread that a test waits for.
class Signal {
 public:
  void set() {  // again: nothing
    if (!std::exchange(is_set_, true)) promise_.set_value();
  }
  bool wait() { return future_.wait_for(kTestPatience) == std::future_status::ready; }

 private:
  bool is_set_ = false;  // on the io thread
  std::promise<void> promise_;
  std::future<void> future_ = promise_.get_future();
};

inline config::ServerOptions options_with(std::int64_t port,
                                          const std::string& host = "127.0.0.1") {
  config::ServerOptions options;
  options.port = port;
  options.host = host;
  return options;
}

// Knows these paths: /echo tells what arrived; /hold keeps the exchange in `held`; /drop lets it
// go; /endless streams without looking at its queue until the client goes; /polite stops at 256
// KiB. Everything else, /health too: "hello".
class TestServer {
 public:
  struct Setup {
    config::ServerOptions options = options_with(0);  // any free port
    config::LimitOptions limits = {};
    Access access = {.auth_required = false};
    MessagePeerHandler websocket = {};
  };

  TestServer() : TestServer(Setup{}) {}
  explicit TestServer(Setup setup);
  ~TestServer();

  int port() const { return port_; }
  int n_connections();
  // Waits until there are so many.
  bool reaches_connections(int n_connections);
  void drain(Signal& done);
  void stop();  // destroys the server

  // Runs the function on the io thread and waits for it.
  template <class Function>
  auto on_io(Function function) {
    std::packaged_task<decltype(function())()> task(std::move(function));
    auto result = task.get_future();
    boost::asio::post(io_, [&task] { task(); });
    return result.get();
  }

  // On the io thread:
  std::vector<std::shared_ptr<HttpExchange>> held;
  std::function<void()> on_held = [] {};
  std::function<void()> on_gone = [] {};
  std::int64_t queued_bytes_seen = 0;  // the most, of /endless and /polite

 private:
  void handle(std::shared_ptr<HttpExchange> exchange);
  void stream(const std::shared_ptr<HttpExchange>& exchange, bool is_polite);

  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  std::unique_ptr<HttpServer> server_;
  int port_ = 0;
  std::shared_ptr<bool> streaming_;  // the client of /endless or /polite is there
  std::thread thread_;
};

struct Answer {
  int status = 0;                              // 0: the connection ended before
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

class Client {
 public:
  explicit Client(int port);
  ~Client();
  Client(Client&& other) noexcept;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view bytes);  // a server that has closed is no failure here
  // "GET /path" with a Host header and what else is given, each with its line end.
  void request(std::string_view method_and_path, std::string_view headers = {},
               std::string_view body = {});
  Answer answer(bool to_head = false);
  Answer get(std::string_view path, std::string_view headers = {});
  std::string read(std::size_t n_bytes);  // fewer when the connection ends
  std::string read_line();                // without its "\r\n"
  bool at_end();                          // waits for the server to close
  void end_sending();
  void close();
  void reset();  // RST instead of FIN

 private:
  bool fill();

  int fd_ = -1;
  std::string input_;
};

}  // namespace engramd::server
