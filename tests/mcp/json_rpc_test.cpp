#include "mcp/json_rpc.h"

#include <gtest/gtest.h>

#include "mcp/protocol.h"

namespace engramd::mcp {
namespace {

constexpr int kDepthMax = 64;

Message parse_one(std::string_view text) {
  Incoming incoming = parse_incoming(text, kDepthMax);
  EXPECT_EQ(incoming.messages.size(), 1u) << text.substr(0, 100);
  return incoming.messages.empty() ? Message{} : incoming.messages.front();
}

TEST(ParseIncoming, TellsTheKindsApart) {
  const std::vector<std::pair<const char*, MessageKind>> cases = {
      {R"({"jsonrpc":"2.0","id":1,"method":"ping"})", MessageKind::kRequest},
      {R"({"jsonrpc":"2.0","id":"","method":""})", MessageKind::kRequest},
      {R"({"jsonrpc":"2.0","method":"x"})", MessageKind::kNotification},
      {R"({"method":"x"})", MessageKind::kNotification},
      {R"({"jsonrpc":"2.0","id":1,"result":{}})", MessageKind::kResponse},
      {R"({"jsonrpc":"2.0","id":null,"error":{}})", MessageKind::kResponse},
      {R"({"id":1,"method":"ping"})", MessageKind::kInvalid},
      {R"({"jsonrpc":"1.0","id":1,"method":"ping"})", MessageKind::kInvalid},
      {R"({"jsonrpc":2.0,"id":1,"method":"ping"})", MessageKind::kInvalid},
      {R"({"jsonrpc":"2.0","id":1,"method":7})", MessageKind::kInvalid},
      {R"({"jsonrpc":"2.0","id":null,"method":"ping"})", MessageKind::kInvalid},
      {R"({"jsonrpc":"2.0","id":1.5,"method":"ping"})", MessageKind::kInvalid},
      {R"({"jsonrpc":"2.0","id":18446744073709551616,"method":"ping"})", MessageKind::kInvalid},
      {R"({"jsonrpc":"2.0","id":[1],"method":"ping"})", MessageKind::kInvalid},
      {"{}", MessageKind::kInvalid},
      {"7", MessageKind::kInvalid},
      {"[]", MessageKind::kInvalid},
      {"\xEF\xBB\xBF{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\r\n", MessageKind::kNotification},
  };
  for (const auto& [text, kind] : cases) EXPECT_EQ(parse_one(text).kind, kind) << text;
}

TEST(ParseIncoming, IgnoresBlankText) {
  for (const char* text : {"", " ", "\r\n", "\xEF\xBB\xBF", "\xEF\xBB\xBF \t\r"}) {
    EXPECT_TRUE(parse_incoming(text, kDepthMax).messages.empty());
  }
}

TEST(ParseIncoming, KeepsTheIdExactly) {
  for (const char* id : {"0", "-1", "\"\"", "\"0\"", "9007199254740993", "18446744073709551615",
                         "-9223372036854775808", "\"\\u00e9\\n\""}) {
    const Message message =
        parse_one(std::string(R"({"jsonrpc":"2.0","method":"ping","id":)") + id + "}");
    EXPECT_EQ(message.kind, MessageKind::kRequest) << id;
    EXPECT_EQ(serialise(message.id, true), id);
  }
}

TEST(ParseIncoming, RepairsLoneSurrogates) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"(\ud800)", "\uFFFD"},
      {R"(\uDC00)", "\uFFFD"},
      {R"(a\ud83dz)", "a\uFFFDz"},
      {R"(\ud800\ud83d\ude00)", "\uFFFD\U0001F600"},
      {R"(\ud800\n)", "\uFFFD\n"},
      {R"(\\ud800\ud800)", "\\ud800\uFFFD"},
      {R"(\ude00\ud83d)", "\uFFFD\uFFFD"},
  };
  for (const auto& [escaped, text] : cases) {
    const Message message = parse_one(R"({"jsonrpc":"2.0","id":1,"method":")" + escaped + "\"}");
    EXPECT_EQ(message.kind, MessageKind::kRequest) << escaped;
    EXPECT_EQ(message.method, text) << escaped;
  }
}

TEST(ParseIncoming, RecoversTheIdOfABrokenMessage) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"jsonrpc":"2.0","id":7,"method":)", "7"},
      {R"({"method":"x","params":{"id":1},"id" : "a b" ,)", "\"a b\""},
      {R"({"params":"\"id\":3","id":4,,})", "4"},
      {"{\"id\":5,\"method\":\"\xFF\"}", "5"},
      {R"({"id":1e999,"method":"x"})", "null"},
      {R"({"id":1.5,,)", "null"},
      {R"({"id":12)", "null"},
      {R"({"id":)", "null"},
      {R"({"id)", "null"},
      {"garbage", "null"},
  };
  for (const auto& [text, id] : cases) {
    const Message message = parse_one(text);
    EXPECT_EQ(message.kind, MessageKind::kInvalid) << text;
    EXPECT_EQ(message.error.code, kParseError) << text;
    EXPECT_EQ(message.id.dump(), id) << text;
  }
}

TEST(ParseIncoming, RefusesDepthBeforeBuildingATree) {
  const auto nested = [](int depth) {
    return R"({"jsonrpc":"2.0","id":9,"method":"x","params":)" + std::string(depth, '[') +
           std::string(depth, ']') + "}";
  };
  EXPECT_EQ(parse_one(nested(kDepthMax - 1)).kind, MessageKind::kRequest);
  for (const int depth : {kDepthMax, 100000, 1000000}) {
    const Message message = parse_one(nested(depth));
    EXPECT_EQ(message.error.code, kInvalidRequest);
    EXPECT_EQ(message.id, 9);
  }
  EXPECT_EQ(parse_one(std::string(1000000, '[')).error.code, kInvalidRequest);
  // Brackets inside strings are text.
  EXPECT_EQ(
      parse_one(R"({"jsonrpc":"2.0","id":1,"method":"\")" + std::string(100000, '[') + "\"}").kind,
      MessageKind::kRequest);
}

TEST(ParseIncoming, ReadsEveryMessageOfABatch) {
  const Incoming incoming = parse_incoming(R"([{"jsonrpc":"2.0","method":"x"},3,[]])", kDepthMax);
  EXPECT_TRUE(incoming.is_batch);
  ASSERT_EQ(incoming.messages.size(), 3u);
  EXPECT_EQ(incoming.messages[0].kind, MessageKind::kNotification);
  EXPECT_EQ(incoming.messages[1].kind, MessageKind::kInvalid);
  EXPECT_EQ(incoming.messages[2].kind, MessageKind::kInvalid);
}

TEST(Serialise, SurvivesBadUtf8AndCanStayAscii) {
  EXPECT_EQ(serialise(json("a\xFF")), "\"a\uFFFD\"");
  EXPECT_EQ(serialise(json("a\xFF\u00e9"), true), R"("a\ufffd\u00e9")");
  EXPECT_EQ(serialise(json("line\nbreak")), R"("line\nbreak")");
}

}  // namespace
}  // namespace engramd::mcp
