// What a server says by itself: changed lists and resources, log messages; and the values that it
// proposes for arguments.
#include <gtest/gtest.h>

#include "tests/mcp/peer.h"

namespace engramd::mcp {
namespace {

using What = Change::What;

constexpr const char* kListen =
    R"({"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{
        "toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,
        "resourceSubscriptions":["test://note","test://nothing"]}}})";

TEST(Changes, LegacyClientsHearOfListsAndOfWhatTheySubscribedTo) {
  Peer peer;
  peer.dispatcher->announce({What::kResources});
  EXPECT_TRUE(peer.take().empty());  // before the handshake
  peer.initialize("2025-11-25");
  peer.dispatcher->announce({What::kResources});
  peer.dispatcher->announce({What::kResource, "test://note"});
  std::vector<json> heard = peer.take();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0]["method"], "notifications/resources/list_changed");
  peer.ask(R"({"jsonrpc":"2.0","id":1,"method":"resources/subscribe",
               "params":{"uri":"test://note"}})");
  peer.dispatcher->announce({What::kResource, "test://note"});
  peer.dispatcher->announce({What::kResource, "test://broken"});
  heard = peer.take();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_TRUE(contains(heard[0], json::parse(R"({"method":"notifications/resources/updated",
      "params":{"uri":"test://note"}})")));
  peer.ask(R"({"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe",
               "params":{"uri":"test://note"}})");
  peer.dispatcher->announce({What::kResource, "test://note"});
  EXPECT_TRUE(peer.take().empty());
}

TEST(Changes, AListenerHearsWhatItAskedForUnderItsId) {
  Peer peer;
  peer.registry.changing.tools = true;
  const json acknowledged = peer.ask(modern(kListen));
  EXPECT_EQ(acknowledged["params"]["notifications"],
            json::parse(R"({"toolsListChanged":true,"resourceSubscriptions":["test://note"]})"));
  peer.dispatcher->announce({What::kTools});
  peer.dispatcher->announce({What::kPrompts});
  peer.dispatcher->announce({What::kResource, "test://note"});
  const std::vector<json> heard = peer.take();
  ASSERT_EQ(heard.size(), 2u);
  for (const json& each : heard) {
    EXPECT_EQ(each["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 7);
  }
  EXPECT_EQ(heard[0]["method"], "notifications/tools/list_changed");
  EXPECT_EQ(heard[1]["method"], "notifications/resources/updated");
}

TEST(Changes, AreDeclaredOnlyWhereTheyCanHappen) {
  Peer peer;
  peer.registry.changing.resources = true;
  const json capabilities = peer.ask(
      modern(R"({"jsonrpc":"2.0","id":1,"method":"server/discover"})"))["result"]["capabilities"];
  EXPECT_EQ(capabilities["resources"], json::parse(R"({"subscribe":true,"listChanged":true})"));
  EXPECT_EQ(capabilities["tools"], json::object());
}

TEST(Changes, AResourceThatIsNotAvailableIsNeitherListedNorRead) {
  Peer peer;
  bool there = false;
  peer.registry.resources[0].available = [&] { return there; };
  const char* read =
      R"({"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://note"}})";
  const char* list = R"({"jsonrpc":"2.0","id":1,"method":"resources/list"})";
  EXPECT_EQ(peer.ask(read)["error"]["code"], -32002);
  EXPECT_EQ(peer.ask(list)["result"]["resources"].size(), 1u);
  there = true;
  EXPECT_TRUE(peer.ask(read).contains("result"));
  EXPECT_EQ(peer.ask(list)["result"]["resources"].size(), 2u);
}

TEST(Log, ReachesWhoWantsItsLevel) {
  const char* call = R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}})";
  Peer legacy;
  legacy.initialize("2025-06-18");
  legacy.ask(R"({"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"error"}})");
  legacy.send(call);
  legacy.running[0]->log("warning", "no");
  legacy.running[0]->log("critical", "yes");
  const std::vector<json> heard = legacy.take();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard[0]["params"], json::parse(R"({"level":"critical","data":"yes"})"));

  Peer without;
  without.send(modern(call));
  without.running[0]->log("emergency", "nobody asked");
  EXPECT_TRUE(without.take().empty());
  json with = json::parse(modern(call));
  with["id"] = 2;
  with["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = "info";
  without.send(with.dump());
  without.running[1]->log("info", "asked");
  EXPECT_EQ(without.take().size(), 1u);
}

TEST(Templates, AreListedReadAndCompleted) {
  Peer peer;
  peer.registry.resource_templates = {
      {.uri_template = "test://page/{number}/text",
       .name = "page",
       .description = "A page.",
       .mime_type = "text/plain",
       .read = [](const std::string& number) -> Result<std::string> {
         if (number.size() > 2) return not_found("no such page");
         return "page " + number;
       },
       .values =
           [] {
             std::vector<std::string> pages;
             for (int i = 0; i < 250; ++i) pages.push_back(std::to_string(i));
             return pages;
           }}};
  const auto read = [&](const std::string& uri) {
    return peer.ask(R"({"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":")" + uri +
                    "\"}}");
  };
  EXPECT_EQ(read("test://page/12/text")["result"]["contents"][0]["text"], "page 12");
  EXPECT_EQ(read("test://page/123/text")["error"]["code"], -32002);
  EXPECT_EQ(read("test://page//text")["error"]["code"], -32002);
  EXPECT_EQ(read("test://page/text")["error"]["code"], -32002);
  const auto complete = [&](const std::string& argument, const std::string& value) {
    return peer.ask(R"({"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":
        {"type":"ref/resource","uri":"test://page/{number}/text"},"argument":{"name":")" +
                    argument + R"(","value":")" + value + "\"}}}");
  };
  const json completion = complete("number", "2")["result"]["completion"];
  EXPECT_EQ(completion["total"], 61);
  EXPECT_EQ(completion["values"][1], "20");
  EXPECT_EQ(complete("number", "")["result"]["completion"]["values"].size(), 100u);
  EXPECT_TRUE(complete("number", "")["result"]["completion"]["hasMore"]);
  EXPECT_EQ(complete("page", "2")["error"]["code"], -32602);
}

TEST(Prompts, CompleteTheirArguments) {
  Peer peer;
  const json reply = peer.ask(R"({"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{
      "ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"tone","value":"f"}}})");
  EXPECT_EQ(reply["result"]["completion"]["values"], json::parse(R"(["friendly","formal"])"));
}

}  // namespace
}  // namespace engramd::mcp
