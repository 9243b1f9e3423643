// HTTP as clients speak it, over real sockets: what is answered, in which order, in which form.
#include "server/transport/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/server/transport/http_test_server.h"

namespace engramd::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

TEST(HttpServer, AnswersWithItsOwnHeaders) {
  TestServer server;
  Client client(server.port());
  const Answer answer = client.get("/health");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "hello");
  EXPECT_EQ(answer.headers.at("content-type"), "text/plain");
  EXPECT_EQ(answer.headers.at("server"), "engramd");
  EXPECT_EQ(answer.headers.at("x-content-type-options"), "nosniff");
  EXPECT_THAT(answer.headers.at("x-request-id"), MatchesRegex("req_[0-9a-f]{24}"));
  EXPECT_THAT(answer.headers.at("date"), MatchesRegex("[A-Z][a-z]{2}, [0-9]{2} .* GMT"));
  EXPECT_EQ(answer.headers.count("access-control-allow-origin"), 0u);
  EXPECT_NE(client.get("/health").headers.at("x-request-id"), answer.headers.at("x-request-id"));
}

TEST(HttpServer, KeepsTheConnectionUnlessAskedNotTo) {
  TestServer server;
  Client client(server.port());
  EXPECT_EQ(client.get("/health").headers.count("connection"), 0u);
  const Answer last = client.get("/health", "Connection: close\r\n");
  EXPECT_EQ(last.headers.at("connection"), "close");
  EXPECT_TRUE(client.at_end());
}

TEST(HttpServer, DecodesThePathAndLeavesTheQuery) {
  TestServer server;
  Client client(server.port());
  EXPECT_EQ(client.get("/echo/a%2Fb%3a%C3%A9?x=%20&y").body, "GET /echo/a/b:\xC3\xA9?x=%20&y\n");
  EXPECT_EQ(client.get("http://localhost/echo?q").body, "GET /echo?q\n");
}

TEST(HttpServer, ReadsBodiesByLengthAndInChunks) {
  TestServer server;
  Client client(server.port());
  client.request("POST /echo", {}, "body");
  EXPECT_EQ(client.answer().body, "POST /echo?\nbody");
  client.request("POST /echo", "Transfer-Encoding: chunked\r\n");
  client.send("4;ext=1\r\nbody\r\n");
  client.send("1\r\n!\r\n0\r\nX-Trailer: t\r\n\r\n");
  EXPECT_EQ(client.answer().body, "POST /echo?\nbody!");
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST(HttpServer, ReadsWhatComesByteByByte) {
  TestServer server;
  Client client(server.port());
  const std::string request =
      "\r\nPOST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\n0\r\n\r\n";
  for (const char& c : request) client.send({&c, 1});
  EXPECT_EQ(client.answer().body, "POST /echo?\nabc");
}

TEST(HttpServer, SaysContinueToWhoWaitsForIt) {
  TestServer server;
  Client client(server.port());
  client.request("POST /echo", "Expect: 100-continue\r\nContent-Length: 4\r\n");
  EXPECT_EQ(client.answer().status, 100);
  client.send("body");
  EXPECT_EQ(client.answer().body, "POST /echo?\nbody");
  client.request("POST /echo", "Expect: 100-continue\r\n", "at once");
  EXPECT_EQ(client.answer().body, "POST /echo?\nat once");
  client.request("POST /echo", "Expect: wonders\r\n", "b");
  EXPECT_EQ(client.answer().status, 417);
}

TEST(HttpServer, AnswersPipelinedRequestsInOrder) {
  TestServer server;
  Client client(server.port());
  Signal held;
  server.on_io([&] { server.on_held = [&] { held.set(); }; });
  const std::string host = " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  client.send("GET /hold" + host + "GET /echo/2" + host + "GET /echo/3" + host);
  ASSERT_TRUE(held.wait());
  server.on_io([&] { server.held.at(0)->respond({.body = "first"}); });
  EXPECT_EQ(client.answer().body, "first");
  EXPECT_EQ(client.answer().body, "GET /echo/2?\n");
  EXPECT_EQ(client.answer().body, "GET /echo/3?\n");
}

TEST(HttpServer, PipelinedGarbageEndsTheConnectionAfterTheAnswers) {
  TestServer server;
  Client client(server.port());
  client.send("GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n\x16\x03\x01 garbage");
  EXPECT_EQ(client.answer().status, 200);
  const Answer refused = client.answer();
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.headers.at("connection"), "close");
  client.end_sending();
  EXPECT_TRUE(client.at_end());
}

TEST(HttpServer, AnswersManyPipelinedRequestsWithoutKeepingThem) {
  TestServer server;
  Client client(server.port());
  constexpr int kRequests = 2000;
  std::thread sender([&] {
    for (int i = 0; i < kRequests; ++i) client.request("GET /echo/" + std::to_string(i));
  });
  for (int i = 0; i < kRequests; ++i) {
    ASSERT_EQ(client.answer().body, "GET /echo/" + std::to_string(i) + "?\n");
  }
  sender.join();
}

TEST(HttpServer, AnswersHeadLikeGetWithoutTheBody) {
  TestServer server;
  Client client(server.port());
  client.request("HEAD /echo");
  const Answer head = client.answer(true);
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), "11");  // of "GET /echo?\n"
  Signal gone;
  server.on_io([&] { server.on_gone = [&] { gone.set(); }; });
  client.request("HEAD /endless");
  EXPECT_EQ(client.answer(true).headers.at("transfer-encoding"), "chunked");
  EXPECT_TRUE(gone.wait());
  EXPECT_EQ(client.get("/health").body, "hello");
}

TEST(HttpServer, StreamsInChunks) {
  TestServer server;
  Client client(server.port());
  Signal held;
  server.on_io([&] { server.on_held = [&] { held.set(); }; });
  client.request("GET /hold");
  ASSERT_TRUE(held.wait());
  server.on_io([&] {
    server.held.at(0)->start({.content_type = "text/event-stream", .body = "a"});
    server.held.at(0)->write("");
    server.held.at(0)->write(std::string(20, 'b'));
  });
  EXPECT_THAT(client.read_line(), HasSubstr("200 OK"));
  for (std::string line = client.read_line(); !line.empty(); line = client.read_line()) {
    EXPECT_THAT(line, Not(HasSubstr("Content-Length")));
  }
  EXPECT_EQ(client.read(6), "1\r\na\r\n");
  EXPECT_EQ(client.read(26), "14\r\n" + std::string(20, 'b') + "\r\n");
  server.on_io([&] {
    server.held.at(0)->finish();
    server.held.clear();
  });
  EXPECT_EQ(client.read(5), "0\r\n\r\n");
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST(HttpServer, SpeaksHttp10) {
  TestServer server;
  Client client(server.port());
  client.send("GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const Answer kept = client.answer();
  EXPECT_EQ(kept.headers.at("connection"), "keep-alive");
  EXPECT_EQ(kept.body, "GET /echo?\n");
  Signal held;
  server.on_io([&] { server.on_held = [&] { held.set(); }; });
  client.send("GET /hold HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  ASSERT_TRUE(held.wait());
  server.on_io([&] {
    server.held.at(0)->start({.body = "one"});
    server.held.at(0)->write("two");
    server.held.at(0)->finish();
  });
  const Answer streamed = client.answer();
  EXPECT_EQ(streamed.body, "onetwo");
  EXPECT_EQ(streamed.headers.count("transfer-encoding"), 0u);
}

// printf 'GET ... ' | nc: the sending half ends at once, the answer is awaited.
TEST(HttpServer, AnswersAClientThatHasEndedItsSending) {
  TestServer server;
  Client client(server.port());
  client.request("GET /echo/1");
  client.request("GET /echo/2");
  client.end_sending();
  EXPECT_EQ(client.answer().body, "GET /echo/1?\n");
  EXPECT_EQ(client.answer().body, "GET /echo/2?\n");
  EXPECT_TRUE(client.at_end());
}

TEST(HttpServer, ADroppedExchangeIsA500) {
  TestServer server;
  Client client(server.port());
  const Answer answer = client.get("/drop");
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(json::parse(answer.body).at("error").at("type"), "api_error");
  EXPECT_EQ(client.get("/health").status, 200);
}

TEST(HttpServer, AStreamThatIsDroppedEndsTheConnectionWithoutTheLastChunk) {
  TestServer server;
  Client client(server.port());
  Signal held;
  server.on_io([&] { server.on_held = [&] { held.set(); }; });
  client.request("GET /hold");
  ASSERT_TRUE(held.wait());
  server.on_io([&] {
    server.held.at(0)->start({});
    server.held.clear();
  });
  while (!client.read_line().empty()) {
  }
  EXPECT_TRUE(client.at_end());
}

TEST(HttpServer, HeaderValuesCannotBeginHeaders) {
  TestServer server;
  Client client(server.port());
  Signal held;
  server.on_io([&] { server.on_held = [&] { held.set(); }; });
  client.request("GET /hold");
  ASSERT_TRUE(held.wait());
  server.on_io([&] { server.held.at(0)->respond({.headers = {{"X-A", "a\r\nX-B: b"}}}); });
  const Answer answer = client.answer();
  EXPECT_EQ(answer.headers.count("x-b"), 0u);
  EXPECT_EQ(answer.headers.at("x-a"), "a  X-B: b");
}

TEST(HttpServer, NoticesAClientThatGoesWhileTheHandlerWorks) {
  for (const bool with_reset : {false, true}) {
    TestServer server;
    Client client(server.port());
    Signal held;
    Signal gone;
    server.on_io([&] {
      server.on_held = [&] { held.set(); };
      server.on_gone = [&] { gone.set(); };
    });
    client.request("POST /hold", {}, "body");
    ASSERT_TRUE(held.wait());
    with_reset ? client.reset() : client.close();
    ASSERT_TRUE(gone.wait());
    server.on_io([&] {  // does nothing any more
      EXPECT_EQ(server.held.at(0)->queued_bytes(), 0);
      server.held.at(0)->start({});
      server.held.at(0)->write("x");
      server.held.at(0)->finish();
    });
    EXPECT_TRUE(server.reaches_connections(0));
  }
}

TEST(HttpServer, ToldLateThatTheClientHasGoneTheHandlerHearsItToo) {
  TestServer server;
  Client client(server.port());
  Signal held;
  server.on_io([&] { server.on_held = [&] { held.set(); }; });
  client.request("GET /hold");
  ASSERT_TRUE(held.wait());
  client.close();
  ASSERT_TRUE(server.reaches_connections(0));
  Signal late;
  server.on_io([&] { server.held.at(0)->on_gone([&] { late.set(); }); });
  EXPECT_TRUE(late.wait());
}

TEST(HttpServer, DrainsByAnsweringWhatIsInHand) {
  TestServer server;
  Client idle(server.port());
  EXPECT_EQ(idle.get("/health").status, 200);
  Client busy(server.port());
  Signal held;
  server.on_io([&] { server.on_held = [&] { held.set(); }; });
  busy.request("GET /hold");
  ASSERT_TRUE(held.wait());
  Signal done;
  server.drain(done);
  EXPECT_TRUE(idle.at_end());
  server.on_io([&] { server.held.at(0)->respond({.body = "last"}); });
  const Answer answer = busy.answer();
  EXPECT_EQ(answer.body, "last");
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_TRUE(done.wait());
  EXPECT_EQ(server.n_connections(), 0);
}

TEST(HttpServer, DrainsAtOnceWhenNobodyIsThere) {
  TestServer server;
  Signal done;
  server.drain(done);
  EXPECT_TRUE(done.wait());
}

TEST(HttpServer, MayBeDestroyedWithRequestsInHand) {
  TestServer server;
  Client client(server.port());
  Signal held;
  server.on_io([&] { server.on_held = [&] { held.set(); }; });
  client.request("GET /hold");
  ASSERT_TRUE(held.wait());
  std::shared_ptr<HttpExchange> exchange = server.on_io([&] { return server.held.at(0); });
  server.stop();
  EXPECT_TRUE(client.at_end());
  exchange->respond({.body = "nobody hears it"});
}

TEST(HttpServer, SaysWhyItCannotListen) {
  TestServer server;
  boost::asio::io_context io;
  const HttpHandlers handlers;
  const auto taken = HttpServer::listen(io, options_with(server.port()), {}, {}, handlers);
  ASSERT_TRUE(taken.has_error());
  EXPECT_THAT(taken.error().message, HasSubstr("--port"));
  const auto unknown = HttpServer::listen(io, options_with(0, "example.org"), {}, {}, handlers);
  ASSERT_TRUE(unknown.has_error());
  EXPECT_THAT(unknown.error().message, HasSubstr("expected localhost, an IPv4 address"));
}

}  // namespace
}  // namespace engramd::server
