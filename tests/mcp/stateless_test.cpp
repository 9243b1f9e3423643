// The modern era (2026-07-28), rule by rule, and the choice between the eras.
#include <gtest/gtest.h>

#include "tests/mcp/peer.h"

namespace engramd::mcp {
namespace {

TEST(Stateless, AnswersByTheRules) {
  const std::vector<Exchange> exchanges = {
      {"discover", R"({"jsonrpc":"2.0","id":"server-discover-probe-1","method":"server/discover"})",
       R"({"id":"server-discover-probe-1","result":{"resultType":"complete",
           "supportedVersions":["2026-07-28"],"instructions":"Ask away.","ttlMs":300000,
           "cacheScope":"public","capabilities":{"tools":{},"resources":{},"prompts":{},
           "completions":{}},"_meta":{"io.modelcontextprotocol/serverInfo":
           {"name":"engramd","title":"Engram daemon","version":"1.2.3"}}}})"},
      {"tools", R"({"jsonrpc":"2.0","id":0,"method":"tools/list"})",
       R"({"id":0,"result":{"resultType":"complete","ttlMs":300000,"cacheScope":"public",
           "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"engramd"}}}})"},
      {"resources", R"({"jsonrpc":"2.0","id":1,"method":"resources/list"})",
       R"({"result":{"resultType":"complete","ttlMs":300000,"cacheScope":"public"}})"},
      {"templates", R"({"jsonrpc":"2.0","id":1,"method":"resources/templates/list"})",
       R"({"result":{"resultType":"complete","resourceTemplates":[],"ttlMs":300000}})"},
      {"prompts", R"({"jsonrpc":"2.0","id":1,"method":"prompts/list"})",
       R"({"result":{"resultType":"complete","ttlMs":300000,"cacheScope":"public"}})"},
      {"resource",
       R"({"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://note"}})",
       R"({"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private",
           "contents":[{"text":"all is well"}]}})"},
      {"unknown resource",
       R"({"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://x"}})",
       R"({"error":{"code":-32602,"data":{"uri":"test://x"}}})"},
      {"prompt",
       R"({"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"greet",
           "arguments":{"name":"Ada"}}})",
       R"({"result":{"resultType":"complete"}})"},
      {"completion",
       R"({"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{
           "ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"tone","value":"w"}}})",
       R"({"result":{"resultType":"complete","completion":{"values":[]}}})"},
      {"tool",
       R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo",
           "arguments":{"text":"a"}}})",
       R"({"result":{"resultType":"complete","structuredContent":{"text":"a"},
           "content":[{"type":"text","text":"echo: a"}],
           "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"engramd"}}}})"},
      {"bad argument values",
       R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}})",
       R"({"result":{"resultType":"complete","isError":true}})"},
      {"unknown tool", R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}})",
       R"({"error":{"code":-32602}})"},
      {"unknown method", R"({"jsonrpc":"2.0","id":1,"method":"x/y"})",
       R"({"error":{"code":-32601}})"},
      {"listen wants a filter", R"({"jsonrpc":"2.0","id":1,"method":"subscriptions/listen"})",
       R"({"error":{"code":-32602}})"},
      {"log level", R"({"jsonrpc":"2.0","id":1,"method":"tools/list",
           "params":{"_meta":{"io.modelcontextprotocol/logLevel":"info"}}})",
       R"({"result":{"resultType":"complete"}})"},
      {"bad log level", R"({"jsonrpc":"2.0","id":1,"method":"tools/list",
           "params":{"_meta":{"io.modelcontextprotocol/logLevel":"loud"}}})",
       R"({"error":{"code":-32602}})"},
  };
  Peer peer;
  for (const Exchange& each : exchanges) {
    SCOPED_TRACE(each.rule);
    EXPECT_TRUE(contains(peer.ask(modern(each.request)), json::parse(each.reply)));
  }
}

TEST(Stateless, RemovedMethodsAreUnknown) {
  Peer peer;
  peer.initialize("2025-11-25");
  for (const char* method :
       {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}) {
    const json request = {{"jsonrpc", "2.0"},
                          {"id", 1},
                          {"method", method},
                          {"params", {{"protocolVersion", "2025-11-25"}, {"level", "info"}}}};
    EXPECT_EQ(peer.ask(modern(request.dump()))["error"]["code"], -32601) << method;
  }
}

TEST(Stateless, ChecksMetaBeforeTheMethod) {
  struct Case {
    const char* meta;
    const char* error;
  };
  constexpr const char* kUnsupported =
      R"({"code":-32022,"data":{"supported":["2026-07-28"],"requested":"v999.0.0"}})";
  const std::vector<Case> cases = {
      {R"({"io.modelcontextprotocol/protocolVersion":"2026-07-28"})", R"({"code":-32602})"},
      {R"({"io.modelcontextprotocol/clientCapabilities":{}})", R"({"code":-32602})"},
      {R"({"io.modelcontextprotocol/protocolVersion":7,
           "io.modelcontextprotocol/clientCapabilities":{}})",
       R"({"code":-32602})"},
      {R"({"io.modelcontextprotocol/protocolVersion":null,
           "io.modelcontextprotocol/clientCapabilities":{}})",
       R"({"code":-32602})"},
      {R"({"io.modelcontextprotocol/protocolVersion":"2026-07-28",
           "io.modelcontextprotocol/clientCapabilities":[]})",
       R"({"code":-32602})"},
      {R"({"io.modelcontextprotocol/protocolVersion":"v999.0.0",
           "io.modelcontextprotocol/clientCapabilities":{}})",
       kUnsupported},
  };
  Peer peer;
  peer.initialize("2025-06-18");  // what came before does not matter
  for (const Case& each : cases) {
    for (const char* method : {"tools/list", "server/discover", "tools/call", "no/such", "ping"}) {
      const json request = {{"jsonrpc", "2.0"},
                            {"id", 1},
                            {"method", method},
                            {"params", {{"_meta", json::parse(each.meta)}}}};
      const json reply = peer.ask(request.dump());
      EXPECT_TRUE(contains(reply["error"], json::parse(each.error))) << method << each.meta;
      EXPECT_EQ(reply["id"], 1);
    }
  }
  // A revision that negotiates by initialize is none that a request can ask for.
  const json old = peer.ask(
      R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{
          "io.modelcontextprotocol/protocolVersion":"2025-11-25",
          "io.modelcontextprotocol/clientCapabilities":{}}}})");
  EXPECT_EQ(old["error"]["code"], -32022);
}

TEST(Stateless, ModernMethodsWithoutMetaAreModernErrors) {
  Peer peer;
  for (const char* method : {"server/discover", "subscriptions/listen"}) {
    const json request = {{"jsonrpc", "2.0"}, {"id", "d"}, {"method", method}};
    EXPECT_TRUE(contains(peer.ask(request.dump()), {{"id", "d"}, {"error", {{"code", -32602}}}}));
  }
}

TEST(Stateless, ErasMixOnOneConnection) {
  Peer peer;
  const std::string list = R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})";
  EXPECT_TRUE(peer.ask(modern(list))["result"].contains("resultType"));
  peer.initialize("2024-11-05");
  EXPECT_FALSE(peer.ask(list)["result"]["tools"][0].contains("outputSchema"));
  EXPECT_TRUE(peer.ask(modern(list))["result"]["tools"][0].contains("outputSchema"));
  EXPECT_FALSE(peer.ask(list)["result"].contains("resultType"));
}

TEST(Stateless, ListsAreTheSameForEveryConnection) {
  Peer one;
  Peer two;
  two.initialize("2024-11-05");
  const std::string list = modern(R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})");
  EXPECT_EQ(one.ask(list), two.ask(list));
}

constexpr const char* kListen =
    R"({"jsonrpc":"2.0","id":"s1","method":"subscriptions/listen","params":{"notifications":{
        "toolsListChanged":true,"resourceSubscriptions":["test://note"]}}})";

TEST(Subscriptions, AreAcknowledgedWithTheHonouredSubset) {
  Peer peer;
  const json acknowledged = peer.ask(modern(kListen));
  EXPECT_EQ(acknowledged, json::parse(R"({"jsonrpc":"2.0",
      "method":"notifications/subscriptions/acknowledged",
      "params":{"notifications":{"resourceSubscriptions":["test://note"]},
      "_meta":{"io.modelcontextprotocol/subscriptionId":"s1"}}})"));
  EXPECT_EQ(peer.connection->in_flight(), 0);                     // a shutdown need not wait for it
  EXPECT_EQ(peer.ask(modern(kListen))["error"]["code"], -32600);  // the id is in use
}

TEST(Subscriptions, EndInSilenceWhenTheClientCancels) {
  Peer peer;
  peer.send(modern(kListen));
  EXPECT_TRUE(
      peer.send(
              R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s1"}})")
          .empty());
  peer.connection->end_subscriptions();
  EXPECT_TRUE(peer.take().empty());
}

TEST(Subscriptions, EndWithAResultAtAGracefulShutdown) {
  Peer peer;
  peer.send(modern(R"({"jsonrpc":"2.0","id":5,"method":"subscriptions/listen",
                       "params":{"notifications":{}}})"));
  peer.send(modern(R"({"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"wait"}})"));
  peer.connection->end_subscriptions();
  const std::vector<json> sent = peer.take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(contains(sent[0], json::parse(R"({"id":5,"result":{"resultType":"complete",
      "_meta":{"io.modelcontextprotocol/subscriptionId":5}}})")));
  EXPECT_EQ(peer.connection->in_flight(), 1);
}

}  // namespace
}  // namespace engramd::mcp
