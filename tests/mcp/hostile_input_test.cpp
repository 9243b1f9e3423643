// Whatever arrives, the next good message is answered.
#include <gtest/gtest.h>

#include "tests/mcp/peer.h"

namespace engramd::mcp {
namespace {

constexpr const char* kPing = R"({"jsonrpc":"2.0","id":"p","method":"ping"})";

void expect_alive(Peer& peer) {
  EXPECT_TRUE(contains(peer.ask(kPing), {{"id", "p"}, {"result", json::object()}}));
}

TEST(HostileInput, GarbageIsAnsweredOnceAndForgotten) {
  const std::vector<Exchange> exchanges = {
      {"no JSON", "hello", R"({"error":{"code":-32700}})"},
      {"half a message", R"({"jsonrpc":"2.0","id":3,"method":"pi)",
       R"({"id":3,"error":{"code":-32700}})"},
      {"two messages on a line", R"({"jsonrpc":"2.0","id":3,"method":"ping"}{})",
       R"({"id":3,"error":{"code":-32700}})"},
      {"bad UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"\xC3\x28\"}",
       R"({"id":3,"error":{"code":-32700}})"},
      {"no object", "42", R"({"error":{"code":-32600}})"},
      {"empty object", "{}", R"({"error":{"code":-32600}})"},
      {"empty batch", "[]", R"({"error":{"code":-32600}})"},
      {"id null", R"({"jsonrpc":"2.0","id":null,"method":"ping"})", R"({"error":{"code":-32600}})"},
      {"id with a fraction", R"({"jsonrpc":"2.0","id":1.5,"method":"ping"})",
       R"({"error":{"code":-32600}})"},
      {"id 1.0", R"({"jsonrpc":"2.0","id":1.0,"method":"ping"})", R"({"error":{"code":-32600}})"},
      {"id true", R"({"jsonrpc":"2.0","id":true,"method":"ping"})", R"({"error":{"code":-32600}})"},
      {"no jsonrpc", R"({"id":4,"method":"ping"})", R"({"id":4,"error":{"code":-32600}})"},
      {"number that fits nothing",
       R"({"jsonrpc":"2.0","id":4,"method":"ping","params":{"x":1e999}})",
       R"({"id":4,"error":{"code":-32700}})"},
      {"empty method", R"({"jsonrpc":"2.0","id":"","method":""})",
       R"({"id":"","error":{"code":-32601}})"},
      {"_meta that is no object",
       R"({"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"echo","_meta":7}})",
       R"({"id":4,"error":{"code":-32602}})"},
      {"lone surrogate", R"({"jsonrpc":"2.0","id":"\ud800","method":"ping"})", R"({"result":{}})"},
      {"blank", " \r\n", ""},
      {"byte order mark", "\xEF\xBB\xBF", ""},
      {"response to nothing", R"({"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}})", ""},
      {"notification with bad params", R"({"jsonrpc":"2.0","method":"x","params":7})", ""},
  };
  Peer peer;
  for (const Exchange& each : exchanges) {
    SCOPED_TRACE(each.rule);
    if (*each.reply == '\0') {
      EXPECT_TRUE(peer.send(each.request).empty());
    } else {
      EXPECT_TRUE(contains(peer.ask(each.request), json::parse(each.reply)));
    }
    expect_alive(peer);
  }
}

TEST(HostileInput, DepthIsRefusedWithItsId) {
  Peer peer;
  for (const int depth : {64, 100000}) {
    const std::string bomb = R"({"jsonrpc":"2.0","id":"d","method":"tools/call","params":)" +
                             std::string(depth, '[') + std::string(depth, ']') + "}";
    EXPECT_TRUE(contains(peer.ask(bomb), {{"id", "d"}, {"error", {{"code", -32600}}}}));
    expect_alive(peer);
  }
}

TEST(HostileInput, LengthIsRefusedWithItsId) {
  Peer peer({.message_bytes_max = 1000});
  const std::string head = R"({"jsonrpc":"2.0","id":8,"method":"ping","params":{"x":")";
  EXPECT_TRUE(contains(peer.ask(head + std::string(1000, 'x') + "\"}}"),
                       {{"id", 8}, {"error", {{"code", -32600}}}}));
  peer.connection->receive_oversize(head + "xx");
  EXPECT_TRUE(contains(peer.take().at(0), {{"id", 8}, {"error", {{"code", -32600}}}}));
  expect_alive(peer);
}

TEST(HostileInput, TenMegabytesGoThroughInBothDirections) {
  Peer peer;
  const std::string text(9 * 1024 * 1024, 'x');
  const json reply =
      peer.ask(R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo",)"
               R"("arguments":{"text":")" +
               text + "\"}}}");
  EXPECT_EQ(reply["result"]["structuredContent"]["text"].get<std::string>().size(), text.size());
  const json refused = peer.ask(
      R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":")" + text + "\"}}");
  EXPECT_LT(refused.dump().size(), 300u);  // a long name is not echoed
  expect_alive(peer);
}

TEST(HostileInput, AsciiModeEscapesEverything) {
  Peer peer;
  peer.connection->set_ascii_only(true);
  peer.ask(R"({"jsonrpc":"2.0","id":"\u4f60","method":"tools/call","params":{"name":"echo",)"
           R"("arguments":{"text":"é"}}})");
  for (const char c : peer.raw.back()) EXPECT_GE(c, 0x20);
}

TEST(HostileInput, ManyRequestsLeaveNothingBehind) {
  Peer peer;
  for (int i = 0; i < 1000; ++i) {
    peer.send(R"({"jsonrpc":"2.0","id":)" + std::to_string(i) +
              R"(,"method":"tools/call","params":{"name":"wait"}})");
    peer.send(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":)" +
              std::to_string(i) + "}}");
  }
  EXPECT_EQ(peer.running.size(), 1000u);
  EXPECT_EQ(peer.connection->in_flight(), 0);
}

}  // namespace
}  // namespace engramd::mcp
