#include "server/transport/header_text.h"

#include <gtest/gtest.h>

namespace engramd::server {
namespace {

TEST(HeaderText, PathsAreDecodedOnce) {
  EXPECT_EQ(parse_request_target("/a%2520b")->path, "/a%20b");
  EXPECT_EQ(parse_request_target("/a+b")->path, "/a+b");
  EXPECT_EQ(parse_request_target("/a?")->path, "/a");
  EXPECT_EQ(parse_request_target("/a?b?c")->query, "b?c");
  EXPECT_EQ(parse_request_target("HTTP://h:1/a?b")->authority, "h:1");
}

TEST(HeaderText, BadTargetsAreNone) {
  for (const char* bad :
       {"", "*", "a", "/%", "/%4", "/%g0", "/%00", "/%0a", "/%7f", "/%ff", "/%c3", "/%ed%a0%80",
        "/#a", "http://", "http:///a", "https://h/", "http://h?a", "h:443"}) {
    EXPECT_FALSE(parse_request_target(bad).has_value()) << bad;
  }
}

TEST(HeaderText, TokensOfLists) {
  EXPECT_TRUE(has_token_ignoring_case("keep-alive, UPGRADE", "upgrade"));
  EXPECT_TRUE(has_token("v1,mcp", "mcp"));
  EXPECT_FALSE(has_token("MCP, mcp2, xmcp", "mcp"));
  EXPECT_FALSE(has_token("", "mcp"));
}

TEST(HeaderText, BearerTokens) {
  EXPECT_EQ(parse_bearer("Bearer x"), "x");
  EXPECT_EQ(parse_bearer("BEARER  x "), "x");
  EXPECT_FALSE(parse_bearer("Bearerx").has_value());
  EXPECT_FALSE(parse_bearer("Basic x").has_value());
}

}  // namespace
}  // namespace engramd::server
