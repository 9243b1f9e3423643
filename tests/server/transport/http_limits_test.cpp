// Every limit of the TCP port, reached; and clients that mean harm, while another one is served.
#include <atomic>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include "tests/server/transport/http_test_server.h"

namespace engramd::server {
namespace {

using testing::HasSubstr;

TestServer::Setup impatient() {
  TestServer::Setup setup;
  setup.options.header_timeout_ms = 50;
  return setup;
}

TEST(HttpLimits, HeadersThatAreTooLong) {
  TestServer::Setup setup;
  setup.limits.http_header_bytes_max = 1024;
  TestServer server(std::move(setup));
  Client client(server.port());
  const Answer refused = client.get("/echo", "X: " + std::string(2000, 'x') + "\r\n");
  EXPECT_EQ(refused.status, 431);
  EXPECT_THAT(refused.body, HasSubstr("limits.http_header_bytes_max"));
  EXPECT_EQ(refused.headers.at("connection"), "close");
  // A line without an end: answered while the client still sends.
  Client endless(server.port());
  std::thread sender([&] { endless.send("GET /" + std::string(1 << 24, 'x')); });
  EXPECT_EQ(endless.answer().status, 431);
  endless.end_sending();
  sender.join();
}

TEST(HttpLimits, BodiesThatAreTooLong) {
  TestServer::Setup setup;
  setup.limits.http_body_bytes_max = 1024;
  TestServer server(std::move(setup));
  Client announced(server.port());
  announced.request("POST /echo", "Expect: 100-continue\r\nContent-Length: 1025\r\n");
  const Answer refused = announced.answer();
  EXPECT_EQ(refused.status, 413);
  EXPECT_THAT(refused.body, HasSubstr("limits.http_body_bytes_max"));
  Client chunked(server.port());
  chunked.request("POST /echo", "Transfer-Encoding: chunked\r\n");
  chunked.send("800\r\n" + std::string(2048, 'x'));
  EXPECT_EQ(chunked.answer().status, 413);
}

TEST(HttpLimits, HeadersThatDoNotCome) {
  TestServer server(impatient());
  Client silent(server.port());
  Client half(server.port());
  half.send("GET /echo HTTP/1.1\r\nHost: local");
  EXPECT_EQ(half.answer().status, 408);
  EXPECT_TRUE(silent.at_end()) << "nothing was asked, nothing is answered";
}

TEST(HttpLimits, HeadersOneByteAtATime) {
  TestServer server(impatient());
  Client client(server.port());
  std::atomic<bool> answered = false;
  std::thread drip([&] {
    client.send("GET / HTTP/1.1\r\nX: ");
    while (!answered) client.send("x");
  });
  const Answer answer = client.answer();
  answered = true;
  drip.join();
  EXPECT_THAT(answer.status, testing::AnyOf(408, 431));
}

TEST(HttpLimits, BodiesThatCrawl) {
  TestServer::Setup setup = impatient();
  setup.limits.http_body_bytes_per_second_min = 1000000000;
  TestServer server(std::move(setup));
  Client client(server.port());
  client.request("POST /echo", "Content-Length: 1000\r\n");
  client.send("x");
  const Answer answer = client.answer();
  EXPECT_EQ(answer.status, 408);
  EXPECT_THAT(answer.body, HasSubstr("http_body_bytes_per_second_min"));
}

TEST(HttpLimits, IdleConnectionsEnd) {
  TestServer::Setup setup;
  setup.options.idle_timeout_ms = 50;
  TestServer server(std::move(setup));
  Client client(server.port());
  EXPECT_EQ(client.get("/health").status, 200);
  EXPECT_TRUE(client.at_end());
}

TEST(HttpLimits, RequestsOfOneAddress) {
  TestServer::Setup setup;
  setup.limits.requests_per_minute = 3;
  TestServer server(std::move(setup));
  Client client(server.port());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(client.get("/health").status, 200);
  const Answer refused = client.get("/health");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.headers.at("retry-after"), "20");
  EXPECT_EQ(nlohmann::json::parse(refused.body).at("error").at("type"), "rate_limit_error");
}

TEST(HttpLimits, Connections) {
  TestServer::Setup setup;
  setup.limits.connections_max = 2;
  TestServer server(std::move(setup));
  Client first(server.port());
  Client second(server.port());
  ASSERT_TRUE(server.reaches_connections(2));
  Client third(server.port());
  const Answer refused = third.answer();
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("limits.connections_max"));
  EXPECT_TRUE(third.at_end());
  EXPECT_EQ(first.get("/health").status, 200);
  second.close();
  ASSERT_TRUE(server.reaches_connections(1));
  EXPECT_EQ(Client(server.port()).get("/health").status, 200);
}

TEST(HttpLimits, AnEndlessStreamThatNobodyReadsIsCut) {
  TestServer::Setup setup;
  setup.limits.send_queue_bytes_max = 1 << 20;
  TestServer server(std::move(setup));
  Signal gone;
  server.on_io([&] { server.on_gone = [&] { gone.set(); }; });
  Client client(server.port());
  client.request("GET /endless");
  ASSERT_TRUE(gone.wait());
  EXPECT_LE(server.on_io([&] { return server.queued_bytes_seen; }), (1 << 20) + 32768);
  EXPECT_EQ(Client(server.port()).get("/health").status, 200);
}

TEST(HttpLimits, AClientThatReadsNothingIsGivenUp) {
  TestServer::Setup setup;
  setup.options.write_timeout_ms = 50;
  TestServer server(std::move(setup));
  Signal gone;
  server.on_io([&] { server.on_gone = [&] { gone.set(); }; });
  Client client(server.port());
  client.request("GET /polite");
  EXPECT_EQ(Client(server.port()).get("/health").status, 200) << "others do not wait";
  ASSERT_TRUE(gone.wait());
  EXPECT_LE(server.on_io([&] { return server.queued_bytes_seen; }), 262144 + 32768);
}

TEST(HttpLimits, AClientThatVanishesInTheMiddleOfAStream) {
  TestServer server;
  Signal gone;
  server.on_io([&] { server.on_gone = [&] { gone.set(); }; });
  Client client(server.port());
  client.request("GET /polite");
  EXPECT_EQ(client.read(100000).size(), 100000u);
  client.reset();
  ASSERT_TRUE(gone.wait());
  EXPECT_TRUE(server.reaches_connections(0));
}

TEST(HttpLimits, ThousandsOfSilentConnectionsHarmNobody) {
  TestServer::Setup setup;
  setup.limits.connections_max = 1500;
  TestServer server(std::move(setup));
  constexpr int kClients = 2000;  // at both ends of this process: 4000 descriptors
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  ASSERT_EQ(limit.rlim_cur, limit.rlim_max) << "listen() raises it";
  if (limit.rlim_cur < 2 * kClients + 100) GTEST_SKIP() << "too few descriptors here";
  Client honest(server.port());
  EXPECT_EQ(honest.get("/health").status, 200);
  std::vector<Client> crowd;
  for (int i = 0; i < kClients; ++i) {
    crowd.emplace_back(server.port());
    if (i % 2 == 0) crowd.back().send("GET /half HTTP/1.1\r\nHost");
    if (i % 100 == 0) {
      EXPECT_EQ(honest.get("/health").status, 200) << i;
    }
  }
  EXPECT_EQ(crowd.back().answer().status, 503);
  ASSERT_TRUE(server.reaches_connections(1500));
  EXPECT_EQ(honest.get("/health").status, 200);
  crowd.clear();
  EXPECT_TRUE(server.reaches_connections(1));
}

// Takes the process's last descriptors away, connects, gives them back.
TEST(HttpLimits, WithoutDescriptorsTheOthersAreServedAndNewOnesLater) {
  TestServer server;
  Client honest(server.port());
  EXPECT_EQ(honest.get("/health").status, 200);
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  std::vector<int> fillers;
  Client waiting = [&] {
    rlimit low = before;
    low.rlim_cur = 256;
    ::setrlimit(RLIMIT_NOFILE, &low);
    for (int fd = ::open("/dev/null", O_RDONLY); fd >= 0; fd = ::open("/dev/null", O_RDONLY)) {
      fillers.push_back(fd);
    }
    ::close(fillers.back());  // for the client's end; none is left for the server's
    fillers.pop_back();
    return Client(server.port());
  }();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(honest.get("/health").status, 200);
  EXPECT_EQ(server.n_connections(), 1);
  for (const int fd : fillers) ::close(fd);
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(waiting.get("/health").status, 200);
}

}  // namespace
}  // namespace engramd::server
