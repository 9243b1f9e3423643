// The bridge between a client and a daemon that comes and goes, without either: what it answers
// itself, what it forwards, and what becomes of both when the daemon dies.
#include "server/bridge.h"

#include <gtest/gtest.h>

namespace engramd::server {
namespace {

using mcp::json;

class Bridged {
 public:
  Bridged() {
    registry.server_version = "1";
    registry.tools = {{.name = "work", .description = "Works here.", .handler = [](auto call) {
                         call->finish({.text = "done here"});
                       }}};
    client = bridge.connect([this](const mcp::Outgoing& outgoing) {
      if (!outgoing.message.empty()) answers.push_back(json::parse(outgoing.message));
    });
  }

  void connect_daemon() {
    to_daemon.clear();
    bridge.daemon_connected(
        [this](const std::string& message) { to_daemon.push_back(json::parse(message)); });
  }
  void greet() {
    bridge.daemon_message(R"({"jsonrpc":"2.0","id":"engramd-bridge-greeting","result":{}})");
  }
  void send(const std::string& members) { client->receive(R"({"jsonrpc":"2.0",)" + members + "}"); }
  void call(int id) {
    send("\"id\":" + std::to_string(id) + R"(,"method":"tools/call","params":{"name":"work"})");
  }
  void initialize(const std::string& version = "2025-11-25") {
    send(R"("id":0,"method":"initialize","params":{"protocolVersion":")" + version +
         R"(","capabilities":{}})");
    send(R"("method":"notifications/initialized")");
  }
  std::vector<json> take() { return std::exchange(answers, {}); }

  mcp::Registry registry;
  std::unique_ptr<mcp::Dispatcher> local = mcp::make_dispatcher(registry, {});
  Bridge bridge{*local, {.waiting_max = 3}};
  std::vector<json> answers;    // to the client
  std::vector<json> to_daemon;  // since it connected
  std::unique_ptr<mcp::Connection> client;
};

std::vector<std::string> methods(const std::vector<json>& messages) {
  std::vector<std::string> out;
  for (const json& each : messages) out.push_back(each.value("method", "-"));
  return out;
}
using Methods = std::vector<std::string>;

TEST(Bridge, AnswersTheHandshakeWithoutADaemon) {
  Bridged setup;
  setup.initialize();
  setup.send(R"("id":1,"method":"tools/list")");
  setup.send(R"("id":2,"method":"ping")");
  const auto answers = setup.take();
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[0]["result"]["protocolVersion"], "2025-11-25");
  EXPECT_EQ(answers[1]["result"]["tools"][0]["name"], "work");
}

TEST(Bridge, EntrustsNothingToADaemonThatHasNotAnswered) {
  Bridged setup;
  setup.initialize();
  setup.call(1);
  setup.connect_daemon();
  EXPECT_EQ(methods(setup.to_daemon), (Methods{"server/discover"}));
  setup.bridge.daemon_lost();  // it was on its way out
  setup.take();
  setup.connect_daemon();
  setup.greet();
  EXPECT_EQ(methods(setup.to_daemon),
            (Methods{"server/discover", "initialize", "notifications/initialized",
                     "notifications/initialized", "tools/call"}));
  EXPECT_TRUE(setup.take().empty());  // nobody was refused
}

TEST(Bridge, ForwardsBothWaysWordForWord) {
  Bridged setup;
  setup.connect_daemon();
  setup.greet();
  setup.call(7);
  EXPECT_EQ(setup.to_daemon.back()["id"], 7);
  EXPECT_EQ(setup.client->in_flight(), 1);
  setup.bridge.daemon_message(R"({"jsonrpc":"2.0","method":"notifications/progress","params":{}})");
  setup.bridge.daemon_message(R"({"jsonrpc":"2.0","id":7,"result":{"x":[1.0,2]}})");
  const auto answers = setup.take();
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[1].dump(), R"({"id":7,"jsonrpc":"2.0","result":{"x":[1.0,2]}})");
  EXPECT_EQ(setup.client->in_flight(), 0);
}

TEST(Bridge, TellsANewDaemonWhatTheOldOneKnew) {
  Bridged setup;
  setup.connect_daemon();
  setup.greet();
  setup.initialize();
  setup.send(R"("id":1,"method":"logging/setLevel","params":{"level":"error"})");
  setup.send(R"("id":2,"method":"resources/subscribe","params":{"uri":"x://y"})");
  setup.bridge.daemon_message(R"({"jsonrpc":"2.0","id":2,"result":{}})");
  setup.bridge.daemon_lost();
  setup.take();
  setup.connect_daemon();
  setup.greet();
  EXPECT_EQ(methods(setup.to_daemon),
            (Methods{"server/discover", "initialize", "notifications/initialized",
                     "logging/setLevel", "resources/subscribe"}));
  for (const json& each : setup.to_daemon) {  // its answers must not reach the client
    if (each.contains("id")) {
      setup.bridge.daemon_message(
          json{{"jsonrpc", "2.0"}, {"id", each["id"]}, {"result", json::object()}}.dump());
    }
  }
  EXPECT_TRUE(setup.take().empty());
}

TEST(Bridge, ALostCallIsAToolErrorAndTheNextOneWaits) {
  Bridged setup;
  setup.connect_daemon();
  setup.greet();
  setup.call(1);
  setup.send(R"("id":2,"method":"resources/read","params":{"uri":"x://y"})");
  setup.bridge.daemon_lost();
  const auto answers = setup.take();
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_TRUE(answers[0]["result"]["isError"]);
  EXPECT_EQ(answers[1]["error"]["code"], -32603);
  setup.call(3);
  EXPECT_EQ(setup.client->in_flight(), 1);
  EXPECT_TRUE(setup.take().empty());
  setup.connect_daemon();
  setup.greet();
  EXPECT_EQ(setup.to_daemon.back()["id"], 3);
}

TEST(Bridge, ACancelledCallIsNotAwaited) {
  Bridged setup;
  setup.connect_daemon();
  setup.greet();
  setup.call(1);
  setup.send(R"("method":"notifications/cancelled","params":{"requestId":1})");
  EXPECT_EQ(setup.client->in_flight(), 0);
  EXPECT_EQ(setup.to_daemon.back()["method"], "notifications/cancelled");
}

TEST(Bridge, WithoutADaemonEverythingIsServedHere) {
  Bridged setup;
  setup.initialize();
  setup.call(1);
  setup.take();
  setup.bridge.serve_here();
  setup.call(2);
  const auto answers = setup.take();
  ASSERT_EQ(answers.size(), 2u);
  for (const json& each : answers) {
    EXPECT_EQ(each["result"]["content"][0]["text"], "done here");
  }
}

TEST(Bridge, WaitingHasALimit) {
  Bridged setup;
  for (int id = 0; id < 4; ++id) setup.call(id);
  const auto answers = setup.take();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_TRUE(answers[0]["result"]["isError"]);
}

TEST(Bridge, ForwardsBatchesOnlyWhereTheyExist) {
  const std::string batch = R"([{"jsonrpc":"2.0","id":1,"method":"ping"}])";
  Bridged setup;
  setup.connect_daemon();
  setup.greet();
  setup.initialize("2025-11-25");
  setup.take();
  setup.client->receive(batch);
  EXPECT_EQ(setup.take().back()["error"]["code"], -32600);
  setup.initialize("2025-03-26");
  setup.client->receive(batch);
  EXPECT_TRUE(setup.to_daemon.back().is_array());
  setup.bridge.daemon_message(R"([{"jsonrpc":"2.0","id":1,"result":{}}])");
  EXPECT_EQ(setup.client->in_flight(), 0);
}

}  // namespace
}  // namespace engramd::server
