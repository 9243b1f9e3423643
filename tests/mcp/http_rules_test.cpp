// What Streamable HTTP adds: the era of a POST, headers against the body, statuses.
#include "mcp/http_rules.h"

#include <gtest/gtest.h>

#include "tests/mcp/peer.h"

namespace engramd::mcp::http {
namespace {

using Headers = std::vector<std::pair<std::string_view, std::string_view>>;

Header header_of(const Headers& headers) {
  return [headers](std::string_view name) -> std::optional<std::string_view> {
    for (const auto& [key, value] : headers) {
      if (key == name) return value;
    }
    return std::nullopt;
  };
}

Incoming parsed(const std::string& text) {
  return parse_incoming(text, 64);
}

const std::string kCallText =
    modern(R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}})");

TEST(HttpRules, TheBodyOrElseTheHeaderChoosesTheEra) {
  const std::string plain = R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})";
  EXPECT_TRUE(is_modern(parsed(kCallText), header_of({})));
  EXPECT_TRUE(is_modern(parsed(kCallText), header_of({{kVersionHeader, "2025-11-25"}})));
  EXPECT_TRUE(is_modern(parsed(plain), header_of({{kVersionHeader, "2026-07-28"}})));
  EXPECT_FALSE(is_modern(parsed(plain), header_of({{kVersionHeader, "2025-11-25"}})));
  EXPECT_FALSE(is_modern(parsed(plain), header_of({})));
  EXPECT_FALSE(is_modern(parsed("[" + kCallText + "]"), header_of({})));
}

TEST(HttpRules, HeadersAgreeWithTheBody) {
  const Headers right = {{kVersionHeader, "2026-07-28"},
                         {kMethodHeader, "tools/call"},
                         {kNameHeader, " =?base64?ZWNobw==?= "}};
  const auto code = [](const std::string& text, const Headers& headers) {
    const Incoming incoming = parsed(text);
    const auto error = check_headers(incoming.messages.front(), header_of(headers));
    return error ? error->code : 0;
  };
  EXPECT_EQ(code(kCallText, right), 0);
  EXPECT_EQ(code(kCallText, {}), kHeaderMismatch);
  for (std::size_t i = 0; i < right.size(); ++i) {
    Headers wrong = right;
    wrong[i].second = "other";
    EXPECT_EQ(code(kCallText, wrong), kHeaderMismatch) << right[i].first;
    wrong = right;
    wrong.erase(wrong.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(code(kCallText, wrong), kHeaderMismatch) << right[i].first;
  }
  Headers broken = right;
  broken[2].second = "=?base64?!?=";
  EXPECT_EQ(code(kCallText, broken), kHeaderMismatch);
  // What is wrong with the body itself comes first, or is left to whoever answers it.
  EXPECT_EQ(code(R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})", right), kInvalidParams);
  EXPECT_EQ(code(R"({"jsonrpc":"2.0","method":"notifications/cancelled"})", {}), 0);
  json unknown = json::parse(kCallText);
  unknown["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "v999.0.0";
  EXPECT_EQ(code(unknown.dump(), {{kVersionHeader, "v999.0.0"}}), 0);
}

TEST(HttpRules, StatusesFollowTheEra) {
  EXPECT_EQ(status(true, 0), 200);
  EXPECT_EQ(status(true, kMethodNotFound), 404);
  EXPECT_EQ(status(true, kInvalidParams), 400);
  EXPECT_EQ(status(true, kUnsupportedProtocolVersion), 400);
  EXPECT_EQ(status(true, kInternalError), 500);
  EXPECT_EQ(status(false, kMethodNotFound), 200);  // 404 would mean a lost session
  EXPECT_EQ(status(false, kParseError), 400);
}

TEST(HttpRules, KnowWhatIsAnsweredAndWhatOpensASession) {
  const std::string hello = R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{}})";
  EXPECT_TRUE(opens_session(parsed(hello)));
  EXPECT_FALSE(opens_session(parsed("[" + hello + "]")));
  EXPECT_TRUE(expects_answer(parsed("[" + hello + "]")));
  EXPECT_TRUE(expects_answer(parsed("{")));
  EXPECT_FALSE(expects_answer(parsed(R"({"jsonrpc":"2.0","method":"x"})")));
  EXPECT_FALSE(expects_answer(parsed(R"({"jsonrpc":"2.0","id":1,"result":{}})")));
}

}  // namespace
}  // namespace engramd::mcp::http
