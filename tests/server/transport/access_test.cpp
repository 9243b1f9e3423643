#include "server/transport/access.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/server/transport/http_test_server.h"

namespace engramd::server {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr char kToken[] = "a-token-of-the-tests";

HttpRequest request_with(HttpHeaders headers, std::string path = "/v1/models") {
  HttpRequest request;
  request.method = "GET";
  request.path = std::move(path);
  request.headers = std::move(headers);
  return request;
}

Access access_with_token() {
  return {.auth_required = true,
          .tokens = {kToken, "another-token-of-them"},
          .hosts = {"box.example", "10.0.0.1:3647"},
          .origins = {"https://page.example"}};
}

int status_of(const Access& access, HttpHeaders headers, std::string path = "/v1/models") {
  const auto refused = refusal(access, request_with(std::move(headers), std::move(path)));
  return refused ? refused->status : 0;
}

TEST(Access, TheTokenComesInTwoHeaders) {
  const Access access = access_with_token();
  EXPECT_EQ(status_of(access, {{"Authorization", std::string("Bearer ") + kToken}}), 0);
  EXPECT_EQ(status_of(access, {{"authorization", "bearer  another-token-of-them "}}), 0);
  EXPECT_EQ(status_of(access, {{"X-Api-Key", kToken}}), 0);
  for (const char* wrong : {"", "Bearer", "Bearer ", "Bearer a-token-of-the-test", "Basic YTpi",
                            "Bearer a-token-of-the-testS", "Bearer a-token-of-the-tests2"}) {
    EXPECT_EQ(status_of(access, {{"Authorization", wrong}}), 401) << wrong;
  }
}

TEST(Access, ARefusalSaysWhatIsExpectedAndNoToken) {
  const auto refused =
      refusal(access_with_token(), request_with({{"x-api-key", "a-guess-of-somebody"}}));
  ASSERT_TRUE(refused.has_value());
  const json error = json::parse(refused->body).at("error");
  EXPECT_EQ(error.at("type"), "authentication_error");
  EXPECT_EQ(error.at("code"), "invalid_api_key");
  EXPECT_TRUE(error.at("param").is_null());
  EXPECT_THAT(error.at("message").get<std::string>(), HasSubstr("Authorization: Bearer"));
  EXPECT_THAT(refused->body, testing::Not(HasSubstr(kToken)));
  EXPECT_THAT(refused->body, testing::Not(HasSubstr("guess")));
  EXPECT_THAT(refused->headers, testing::ElementsAre(testing::Pair("WWW-Authenticate", "Bearer")));
}

TEST(Access, ProbesAndOauthDiscoveryNeedNoToken) {
  const Access access = access_with_token();
  for (const char* open : {"/health", "/ready", "/register", "/.well-known/oauth-x"}) {
    EXPECT_EQ(status_of(access, {}, open), 0) << open;
  }
  for (const char* closed : {"/", "/mcp", "/healthy", "/health/", "/metrics", "/.well-knowns"}) {
    EXPECT_EQ(status_of(access, {}, closed), 401) << closed;
  }
}

TEST(Access, HostsAreLoopbackOrConfigured) {
  const Access access{.auth_required = false, .hosts = access_with_token().hosts};
  for (const char* good : {"localhost", "LOCALHOST:1", "127.0.0.1:3647", "[::1]", "[::1]:3647",
                           "box.example", "Box.Example:99", "10.0.0.1:3647"}) {
    EXPECT_EQ(status_of(access, {{"Host", good}}), 0) << good;
  }
  for (const char* foreign : {"evil.example", "localhost.evil.example", "10.0.0.1", "[::2]",
                              "127.0.0.1.evil.example", "10.0.0.1:3648"}) {
    EXPECT_EQ(status_of(access, {{"Host", foreign}}), 403) << foreign;
  }
  for (const char* bad : {"", "a b", "[::1", "localhost:x", "localhost@evil", "localhost/evil",
                          "localhost:123456", ":80"}) {
    EXPECT_EQ(status_of(access, {{"Host", bad}}), 400) << bad;
  }
}

TEST(Access, OriginsAreAbsentLoopbackOrConfigured) {
  const Access access{.auth_required = false, .origins = access_with_token().origins};
  EXPECT_EQ(status_of(access, {}), 0);
  for (const char* good : {"http://localhost:5173", "https://127.0.0.1", "http://[::1]:80",
                           "https://page.example", "HTTPS://Page.example"}) {
    EXPECT_EQ(status_of(access, {{"Origin", good}}), 0) << good;
  }
  for (const char* foreign :
       {"null", "", "https://evil.example", "http://page.example", "https://page.example:444",
        "http://localhost.evil.example", "file://", "http://localhost/x", "ws://localhost"}) {
    EXPECT_EQ(status_of(access, {{"Origin", foreign}}), 403) << foreign;
  }
}

TEST(Access, OnlyConfiguredOriginsGetCorsHeaders) {
  const Access access = access_with_token();
  EXPECT_TRUE(cors_headers(access, request_with({})).empty());
  EXPECT_TRUE(cors_headers(access, request_with({{"Origin", "http://localhost:5173"}})).empty());
  const HttpHeaders headers =
      cors_headers(access, request_with({{"Origin", "https://page.example"}}));
  EXPECT_EQ(headers.at(0).second, "https://page.example");
}

TEST(Access, PreflightsNeedAConfiguredOrigin) {
  const Access access = access_with_token();
  HttpRequest request = request_with({{"Host", "localhost"},
                                      {"Origin", "https://page.example"},
                                      {"Access-Control-Request-Method", "POST"},
                                      {"Access-Control-Request-Headers", "authorization"}});
  EXPECT_FALSE(preflight_answer(access, request).has_value()) << "a GET is none";
  request.method = "OPTIONS";
  EXPECT_EQ(preflight_answer(access, request)->status, 204);
  request.headers[1].second = "http://localhost:5173";
  EXPECT_EQ(preflight_answer(access, request)->status, 403);
  request.headers[0].second = "evil.example";
  EXPECT_EQ(preflight_answer(access, request)->status, 403);
}

TEST(Access, WithoutATokenOnlyOnLoopback) {
  config::ServerOptions options;
  options.auth = false;
  EXPECT_TRUE(make_access(options, "", "").has_value());
  options.host = "0.0.0.0";
  const auto refused = make_access(options, "", "");
  ASSERT_TRUE(refused.has_error());
  EXPECT_THAT(refused.error().message, HasSubstr("set server.host to 127.0.0.1"));
  options.auth = true;
  EXPECT_TRUE(make_access(options, "", "").has_error()) << "no folder for the token";
}

TEST(Access, IsMadeFromOptionsWithTheTokenOfTheFile) {
  const std::string folder = testing::TempDir() + "/engramd-access-test";
  std::filesystem::remove_all(folder);
  config::ServerOptions options;
  options.allowed_hosts = {"Box.Example"};
  options.allowed_origins = {"https://Page.example"};
  const auto access = make_access(options, folder, "the-key-of-another-server");
  ASSERT_TRUE(access.has_value());
  EXPECT_TRUE(access->auth_required);
  ASSERT_EQ(access->tokens.size(), 2u);
  EXPECT_EQ(access->tokens[0].size(), 43u);  // 32 bytes in base64
  EXPECT_EQ(status_of(*access, {{"Host", "box.example:1"}, {"x-api-key", access->tokens[0]}}), 0);
  EXPECT_EQ(status_of(*access, {{"x-api-key", "the-key-of-another-server"}}), 0);
  EXPECT_EQ(make_access(options, folder, "")->tokens.at(0), access->tokens[0]);
  std::filesystem::remove_all(folder);
}

TEST(Access, HoldsForEveryRequestOfAConnection) {
  TestServer server({.access = access_with_token()});
  Client client(server.port());
  const std::string token = std::string("Authorization: Bearer ") + kToken + "\r\n";
  EXPECT_EQ(client.get("/echo", token).status, 200);
  const Answer refused = client.get("/echo");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.headers.at("www-authenticate"), "Bearer");
  EXPECT_EQ(client.get("/health").status, 200);
  EXPECT_EQ(client.get("/echo", token + "Origin: null\r\n").status, 403);
  client.send("GET http://evil.example/echo HTTP/1.1\r\nHost: localhost\r\n" + token + "\r\n");
  EXPECT_EQ(client.answer().status, 403) << "the address decides, not the Host header";
  // The body of a stranger is not even read.
  client.request("POST /echo", "Content-Length: 10000000\r\n");
  const Answer unread = client.answer();
  EXPECT_EQ(unread.status, 401);
  EXPECT_EQ(unread.headers.at("connection"), "close");
}

TEST(Access, PagesOfConfiguredOriginsMayReadTheAnswers) {
  TestServer server({.access = access_with_token()});
  Client client(server.port());
  const std::string origin = "Origin: https://page.example\r\n";
  client.request("OPTIONS /echo", origin + "Access-Control-Request-Method: POST\r\n");
  EXPECT_EQ(client.answer().status, 204);
  const Answer answer = client.get("/echo", origin + "x-api-key: " + kToken + "\r\n");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("access-control-allow-origin"), "https://page.example");
  EXPECT_EQ(client.get("/echo", origin).headers.at("access-control-allow-origin"),
            "https://page.example")
      << "refusals can be read too";
}

}  // namespace
}  // namespace engramd::server
