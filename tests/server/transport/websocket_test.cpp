// WebSockets over real sockets; the client writes and reads the frames of RFC 6455 itself.
#include <array>
#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/transport/message_peer.h"
#include "tests/server/transport/http_test_server.h"

namespace engramd::server {
namespace {

constexpr int kContinuation = 0;
constexpr int kText = 1;
constexpr int kBinary = 2;
constexpr int kClose = 8;
constexpr int kPing = 9;
constexpr int kPong = 10;

struct Frame {
  int opcode = -1;  // -1: the connection has ended
  bool is_last = true;
  std::string payload;
  int close_code() const {
    if (opcode != kClose || payload.size() < 2) return 0;
    return static_cast<unsigned char>(payload[0]) * 256 + static_cast<unsigned char>(payload[1]);
  }
};

std::string frame(int opcode, std::string_view payload, bool is_last = true) {
  std::string bytes;
  bytes += static_cast<char>((is_last ? 0x80 : 0) | opcode);
  const std::size_t n_bytes = payload.size();
  const int n_length_bytes = n_bytes < 126 ? 0 : n_bytes < 65536 ? 2 : 8;
  bytes += static_cast<char>(0x80 | (n_length_bytes == 0   ? n_bytes
                                     : n_length_bytes == 2 ? 126
                                                           : 127));
  for (int i = n_length_bytes - 1; i >= 0; --i) bytes += static_cast<char>(n_bytes >> (8 * i));
  constexpr std::array<char, 4> kMask = {1, 2, 3, 4};
  bytes.append(kMask.data(), kMask.size());
  for (std::size_t i = 0; i < n_bytes; ++i) bytes += static_cast<char>(payload[i] ^ kMask[i % 4]);
  return bytes;
}

constexpr char kHandshake[] =
    "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

class Socket {
 public:
  explicit Socket(int port, std::string_view headers = {}) : client_(port) {
    client_.request("GET /mcp", std::string(kHandshake).append(headers));
    handshake = client_.answer(true);
  }
  void send(int opcode, std::string_view payload, bool is_last = true) {
    client_.send(frame(opcode, payload, is_last));
  }
  Frame receive() {
    const std::string start = client_.read(2);
    if (start.size() < 2) return {};
    std::size_t n_bytes = static_cast<unsigned char>(start[1]) & 0x7f;
    if (n_bytes >= 126) {
      const std::string length = client_.read(n_bytes == 126 ? 2 : 8);
      n_bytes = 0;
      for (const char c : length) n_bytes = n_bytes * 256 + static_cast<unsigned char>(c);
    }
    return {start[0] & 0x0f, (start[0] & 0x80) != 0, client_.read(n_bytes)};
  }
  // The whole message, of one frame or several.
  std::string receive_message() {
    Frame next = receive();
    std::string message = next.payload;
    while (!next.is_last) message += (next = receive()).payload;
    return message;
  }
  Client& client() { return client_; }

  Answer handshake;

 private:
  Client client_;
};

// Echoes; "hold" is not answered; "much" gets 16 MiB.
class WebSocketTest : public testing::Test {
 protected:
  TestServer::Setup setup() {
    TestServer::Setup setup;
    setup.limits.message_bytes_max = 300000;
    setup.websocket = [this](std::shared_ptr<MessagePeer> peer) {
      peers_.push_back(peer);
      peer->listen({.message =
                        [this, weak = std::weak_ptr(peer)](std::string message) {
                          ++n_messages_;
                          const auto alive = weak.lock();
                          if (message == "bye") return alive->close();
                          if (message == "much") message = std::string(1 << 24, 'm');
                          if (message != "hold") alive->send(std::move(message));
                        },
                    .closed = [this] { closed_.set(); }});
    };
    return setup;
  }

  std::vector<std::weak_ptr<MessagePeer>> peers_;
  std::atomic<int> n_messages_ = 0;
  Signal closed_;
};

TEST_F(WebSocketTest, AcceptsAndEchoesTheSubprotocolOnlyWhenOffered) {
  TestServer server(setup());
  const Socket plain(server.port());
  EXPECT_EQ(plain.handshake.status, 101);
  EXPECT_EQ(plain.handshake.headers.at("sec-websocket-accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
  EXPECT_EQ(plain.handshake.headers.count("sec-websocket-protocol"), 0u);
  const Socket offering(server.port(), "Sec-WebSocket-Protocol: other, mcp\r\n");
  EXPECT_EQ(offering.handshake.headers.at("sec-websocket-protocol"), "mcp");
  const Socket other(server.port(), "Sec-WebSocket-Protocol: mcp2\r\n");
  EXPECT_EQ(other.handshake.headers.count("sec-websocket-protocol"), 0u);
}

TEST_F(WebSocketTest, RefusesBadHandshakes) {
  TestServer::Setup strict = setup();
  strict.access = {.auth_required = true, .tokens = {"a-token-of-the-tests"}};
  TestServer server(std::move(strict));
  const std::string token = "x-api-key: a-token-of-the-tests\r\n";
  EXPECT_EQ(Socket(server.port()).handshake.status, 401);
  EXPECT_EQ(Socket(server.port(), token + "Origin: https://evil.example\r\n").handshake.status,
            403);
  EXPECT_EQ(Socket(server.port(), token + "Origin: http://localhost:1\r\n").handshake.status, 101);
  Client client(server.port());
  EXPECT_EQ(client.get("/elsewhere", kHandshake + token).status, 404);
  const std::string upgrade = token + "Connection: upgrade\r\nUpgrade: websocket\r\n";
  const Answer version = client.get("/mcp", upgrade + "Sec-WebSocket-Version: 8\r\n");
  EXPECT_EQ(version.status, 426);
  EXPECT_EQ(version.headers.at("sec-websocket-version"), "13");
  EXPECT_EQ(client.get("/mcp", upgrade + "Sec-WebSocket-Version: 13\r\n").status, 400);
  client.request("GET /mcp", kHandshake + token + "Content-Length: 1\r\n");
  EXPECT_EQ(client.answer().status, 400);
  Client hasty(server.port());
  hasty.send("GET /mcp HTTP/1.1\r\nHost: localhost\r\n" + token + kHandshake + "\r\n" +
             frame(kText, "early"));
  EXPECT_EQ(hasty.answer().status, 400);
}

TEST_F(WebSocketTest, IsReachedOverAConnectionThatWasUsedBefore) {
  TestServer server(setup());
  Client client(server.port());
  client.send(
      "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
      "GET /mcp HTTP/1.1\r\nHost: localhost\r\n" +
      std::string(kHandshake) + "\r\n");
  EXPECT_EQ(client.answer().status, 200);
  EXPECT_EQ(client.answer(true).status, 101);
  client.send(frame(kText, "hi"));
  EXPECT_EQ(client.read(4), "\x81\x02hi");
}

TEST_F(WebSocketTest, CarriesWholeMessages) {
  TestServer server(setup());
  Socket socket(server.port());
  socket.send(kText, "one");
  socket.send(kText, "two ", false);
  socket.send(kPing, "p");
  socket.send(kContinuation, "thirds", true);
  EXPECT_EQ(socket.receive_message(), "one");
  const Frame pong = socket.receive();
  EXPECT_EQ(pong.opcode, kPong);
  EXPECT_EQ(pong.payload, "p");
  EXPECT_EQ(socket.receive_message(), "two thirds");
  const std::string large(300000, 'x');
  socket.send(kText, large);
  EXPECT_EQ(socket.receive_message(), large);
  socket.send(kText, "");
  EXPECT_EQ(socket.receive_message(), "");
}

TEST_F(WebSocketTest, ClosesWithTheCodeThatSaysWhy) {
  TestServer server(setup());
  Socket binary(server.port());
  binary.send(kBinary, "b");
  EXPECT_EQ(binary.receive().close_code(), 1003);
  Socket not_utf8(server.port());
  not_utf8.send(kText, "\xff\xfe");
  EXPECT_EQ(not_utf8.receive().close_code(), 1007);
  Socket too_long(server.port());
  too_long.client().send(frame(kText, std::string(300001, 'x')).substr(0, 20));
  EXPECT_EQ(too_long.receive().close_code(), 1009) << "by what the frame announces";
  Socket fragments(server.port());
  for (int i = 0; i < 2; ++i) {
    fragments.send(i == 0 ? kText : kContinuation, std::string(200000, 'x'), false);
  }
  EXPECT_EQ(fragments.receive().close_code(), 1009);
  Socket unmasked(server.port());
  unmasked.client().send("\x81\x01x");
  EXPECT_EQ(unmasked.receive().close_code(), 1002);
  EXPECT_EQ(n_messages_, 0);
}

TEST_F(WebSocketTest, AnswersAGoodbye) {
  TestServer server(setup());
  Socket socket(server.port());
  socket.send(kClose, std::string("\x03\xe8", 2));
  EXPECT_EQ(socket.receive().close_code(), 1000);
  EXPECT_TRUE(socket.client().at_end());
  socket.client().close();
  EXPECT_TRUE(closed_.wait());
  EXPECT_TRUE(server.reaches_connections(0));
}

TEST_F(WebSocketTest, DoesNotWaitForeverForAPeerThatStaysAfterItsGoodbye) {
  TestServer::Setup impatient = setup();
  impatient.options.write_timeout_ms = 50;
  TestServer server(std::move(impatient));
  Socket socket(server.port());
  socket.send(kClose, std::string("\x03\xe8", 2));
  EXPECT_TRUE(closed_.wait());
}

TEST_F(WebSocketTest, HearsOfAPeerThatVanishes) {
  TestServer server(setup());
  Socket socket(server.port());
  socket.send(kText, "hold");
  socket.client().reset();
  EXPECT_TRUE(closed_.wait());
}

TEST_F(WebSocketTest, SaysGoodbyeItselfAfterWhatWasSent) {
  TestServer server(setup());
  Socket socket(server.port());
  socket.send(kText, "much");
  socket.send(kText, "bye");
  EXPECT_EQ(socket.receive_message().size(), 1u << 24);
  EXPECT_EQ(socket.receive().close_code(), 1001);
  socket.send(kClose, std::string("\x03\xe9", 2));
  EXPECT_TRUE(socket.client().at_end());
  socket.client().close();
  EXPECT_TRUE(server.reaches_connections(0));
}

TEST_F(WebSocketTest, DrainsWithGoingAway) {
  TestServer server(setup());
  Socket socket(server.port());
  socket.send(kText, "hi");
  EXPECT_EQ(socket.receive_message(), "hi");
  Signal done;
  server.drain(done);
  EXPECT_EQ(socket.receive().close_code(), 1001);
  socket.send(kClose, std::string("\x03\xe9", 2));
  EXPECT_TRUE(socket.client().at_end());
  socket.client().close();
  EXPECT_TRUE(done.wait());
  EXPECT_TRUE(closed_.wait());
}

TEST_F(WebSocketTest, PingsAndGivesUpWhoDoesNotAnswer) {
  TestServer::Setup impatient = setup();
  impatient.options.websocket_ping_ms = 30;
  TestServer server(std::move(impatient));
  Socket socket(server.port());
  EXPECT_EQ(socket.receive().opcode, kPing);
  socket.send(kPong, "");
  EXPECT_EQ(socket.receive().opcode, kPing);
  EXPECT_TRUE(closed_.wait()) << "no answer any more";
}

TEST_F(WebSocketTest, EndsWhoReadsNothing) {
  TestServer::Setup small = setup();
  small.limits.send_queue_bytes_max = 1 << 20;
  TestServer server(std::move(small));
  Socket socket(server.port());
  socket.send(kText, "much");
  const auto end = std::chrono::steady_clock::now() + kTestPatience;
  while (n_messages_ == 0 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  server.on_io([&] {
    for (int i = 0; i < 2; ++i) {
      if (const auto peer = peers_.at(0).lock()) peer->send("one more than may wait");
    }
  });
  EXPECT_TRUE(server.reaches_connections(0));
}

TEST_F(WebSocketTest, ReadsNothingFromWhoDoesNotRead) {
  TestServer server(setup());
  Socket socket(server.port());
  socket.send(kText, "much");
  for (int i = 0; i < 5; ++i) socket.send(kText, "hold");
  EXPECT_EQ(Client(server.port()).get("/health").status, 200);
  EXPECT_LE(n_messages_, 1);
  EXPECT_EQ(socket.receive_message().size(), 1u << 24);
  socket.send(kText, "read again");
  EXPECT_EQ(socket.receive_message(), "read again");
  EXPECT_EQ(n_messages_, 7);
}

TEST_F(WebSocketTest, EndsWhoTakesNothingForTooLong) {
  TestServer::Setup impatient = setup();
  impatient.options.write_timeout_ms = 50;
  TestServer server(std::move(impatient));
  Socket socket(server.port());
  socket.send(kText, "much");
  EXPECT_TRUE(closed_.wait());
}

}  // namespace
}  // namespace engramd::server
