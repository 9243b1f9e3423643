#include "tests/server/transport/http_test_server.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/transport/header_text.h"

namespace engramd::server {

// ---- server ----

TestServer::TestServer(Setup setup) : work_(boost::asio::make_work_guard(io_)) {
  HttpHandlers handlers;
  handlers.request = [this](std::shared_ptr<HttpExchange> exchange) {
    handle(std::move(exchange));
  };
  handlers.websocket_paths = {"/mcp", "/ws"};
  handlers.websocket = std::move(setup.websocket);
  auto server = HttpServer::listen(io_, setup.options, setup.limits, std::move(setup.access),
                                   std::move(handlers));
  EXPECT_TRUE(server.has_value());
  server_ = std::move(server).value();
  port_ = server_->port();
  thread_ = std::thread([this] { io_.run(); });
}

TestServer::~TestServer() {
  stop();
  work_.reset();
  thread_.join();
}

void TestServer::stop() {
  on_io([this] {
    server_.reset();
    streaming_.reset();
    held.clear();
  });
}

int TestServer::n_connections() {
  return on_io([this] { return server_->n_connections(); });
}

bool TestServer::reaches_connections(int n_connections_wanted) {
  const auto end = std::chrono::steady_clock::now() + kTestPatience;
  while (n_connections() != n_connections_wanted) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

void TestServer::drain(Signal& done) {
  on_io([&] { server_->drain([&done] { done.set(); }); });
}

void TestServer::handle(std::shared_ptr<HttpExchange> exchange) {
  const HttpRequest& request = exchange->request();
  if (request.path == "/hold") {
    exchange->on_gone([this] { on_gone(); });
    held.push_back(std::move(exchange));
    return on_held();
  }
  if (request.path == "/drop") return;
  if (request.path == "/endless" || request.path == "/polite") {
    streaming_ = std::make_shared<bool>(true);
    exchange->on_gone([this] {
      streaming_.reset();
      on_gone();
    });
    exchange->start({.content_type = "text/plain", .body = "begin\n"});
    return stream(exchange, request.path == "/polite");
  }
  std::string body = "hello";
  if (request.path.starts_with("/echo")) {
    body = request.method + " " + request.path + "?" + request.query + "\n" + request.body;
  }
  exchange->respond({.content_type = "text/plain", .body = std::move(body)});
}

void TestServer::stream(const std::shared_ptr<HttpExchange>& exchange, bool is_polite) {
  boost::asio::post(io_, [this, exchange, is_polite, alive = std::weak_ptr<bool>(streaming_)] {
    if (alive.expired()) return;
    constexpr std::int64_t kPoliteBytes = 262144;
    queued_bytes_seen = std::max(queued_bytes_seen, exchange->queued_bytes());
    if (!is_polite || exchange->queued_bytes() < kPoliteBytes) {
      exchange->write(std::string(16384, 's'));
    }
    stream(exchange, is_polite);
  });
}

// ---- client ----

Client::Client(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  EXPECT_GE(fd_, 0);
  timeval patience{};
  patience.tv_sec = kTestPatience.count();
  ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
}

Client::~Client() {
  close();
}

Client::Client(Client&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), input_(std::move(other.input_)) {}

void Client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

void Client::request(std::string_view method_and_path, std::string_view headers,
                     std::string_view body) {
  std::string text(method_and_path);
  text.append(" HTTP/1.1\r\nHost: localhost\r\n").append(headers);
  if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  text.append("\r\n").append(body);
  send(text);
}

Answer Client::get(std::string_view path, std::string_view headers) {
  request("GET " + std::string(path), headers);
  return answer();
}

Answer Client::answer(bool to_head) {
  Answer answer;
  const std::string status_line = read_line();
  if (status_line.size() < 12) return answer;
  answer.status = std::stoi(status_line.substr(9, 3));
  for (std::string line = read_line(); !line.empty(); line = read_line()) {
    const auto colon = line.find(':');
    answer.headers[lower_case(line.substr(0, colon))] =
        trimmed(std::string_view(line).substr(std::min(colon + 1, line.size())));
  }
  if (to_head || answer.status < 200) return answer;
  if (const auto length = answer.headers.find("content-length"); length != answer.headers.end()) {
    answer.body = read(std::stoul(length->second));
  } else if (answer.headers.contains("transfer-encoding")) {
    while (true) {
      const std::string size = read_line();
      const std::size_t n_bytes = size.empty() ? 0 : std::stoul(size, nullptr, 16);
      answer.body += read(n_bytes);
      read_line();
      if (n_bytes == 0) break;
    }
  } else if (answer.status != 204) {
    while (fill()) {
    }
    answer.body = std::exchange(input_, {});
  }
  return answer;
}

bool Client::fill() {
  std::array<char, 65536> buffer;
  const ssize_t count = ::recv(fd_, buffer.data(), buffer.size(), 0);
  EXPECT_FALSE(count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) << "the server is silent";
  if (count <= 0) return false;
  input_.append(buffer.data(), static_cast<std::size_t>(count));
  return true;
}

std::string Client::read(std::size_t n_bytes) {
  while (input_.size() < n_bytes && fill()) {
  }
  const std::string bytes = input_.substr(0, n_bytes);
  input_.erase(0, n_bytes);
  return bytes;
}

std::string Client::read_line() {
  std::size_t end = input_.find("\r\n");
  while (end == std::string::npos) {
    if (!fill()) return std::exchange(input_, {});
    end = input_.find("\r\n");
  }
  const std::string line = input_.substr(0, end);
  input_.erase(0, end + 2);
  return line;
}

bool Client::at_end() {
  return input_.empty() && !fill();
}

void Client::end_sending() {
  ::shutdown(fd_, SHUT_WR);
}

void Client::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void Client::reset() {
  const linger now{1, 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close();
}

}  // namespace engramd::server
