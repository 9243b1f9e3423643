// Requests that take time: interleaving, cancellation, progress, limits, batches, observers, and
// handlers and transports that call back at awkward moments.
#include "mcp/dispatcher.h"

#include <gtest/gtest.h>

#include "tests/mcp/peer.h"

namespace engramd::mcp {
namespace {

std::string call(const std::string& id, const std::string& tool, const std::string& more = "") {
  return R"({"jsonrpc":"2.0","id":)" + id + R"(,"method":"tools/call","params":{"name":")" + tool +
         "\"" + more + "}}";
}

std::string cancel(const std::string& id) {
  return R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":)" + id +
         "}}";
}

constexpr const char* kToken = R"(,"_meta":{"progressToken":"t"})";
constexpr const char* kPing = R"({"jsonrpc":"2.0","id":"p","method":"ping"})";

TEST(Dispatcher, AnswersOtherRequestsWhileAToolRuns) {
  Peer peer;
  EXPECT_TRUE(peer.send(call("1", "wait")).empty());
  EXPECT_EQ(peer.connection->in_flight(), 1);
  EXPECT_EQ(peer.ask(kPing)["result"], json::object());
  EXPECT_EQ(peer.ask(call("2", "echo", R"(,"arguments":{"text":"x"})"))["id"], 2);
  peer.running[0]->finish({.text = "done"});
  const std::vector<json> sent = peer.take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(contains(sent[0], json::parse(R"({"id":1,"result":{"content":[{"text":"done"}]}})")));
  EXPECT_EQ(peer.connection->in_flight(), 0);
}

TEST(Dispatcher, FinishesACallOnce) {
  Peer peer;
  peer.send(call("1", "wait"));
  peer.running[0]->finish({.text = "first"});
  peer.running[0]->finish({.text = "second"});
  EXPECT_EQ(peer.take().size(), 1u);
}

TEST(Dispatcher, EchoesIdsAsReceived) {
  Peer peer;
  const std::vector<std::string> ids = {"0", "\"\"", "\"0\"", "9007199254740993", "-5"};
  for (const std::string& id : ids) peer.send(call(id, "wait"));
  EXPECT_EQ(peer.connection->in_flight(), 5);  // 0 and "0" are two requests
  for (const auto& running : peer.running) running->finish({.text = "x"});
  const std::vector<json> sent = peer.take();
  ASSERT_EQ(sent.size(), ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(sent[i]["id"].dump(), ids[i]);
}

TEST(Dispatcher, RefusesAnIdThatIsInUse) {
  Peer peer;
  peer.send(call("1", "wait"));
  EXPECT_EQ(peer.ask(call("1", "wait"))["error"]["code"], -32600);
  EXPECT_EQ(peer.ask(R"({"jsonrpc":"2.0","id":1,"method":"ping"})")["error"]["code"], -32600);
  peer.running[0]->finish({.text = "x"});
  peer.take();
  EXPECT_TRUE(peer.ask(R"({"jsonrpc":"2.0","id":1,"method":"ping"})").contains("result"));
}

TEST(Dispatcher, KeepsConnectionsApart) {
  Peer peer;
  std::vector<std::string> others;
  const auto other = peer.dispatcher->connect(
      [&](Outgoing outgoing) { others.push_back(std::move(outgoing.message)); });
  peer.send(call("1", "wait"));
  other->receive(call("1", "wait"));
  peer.connection->receive(cancel("1"));
  EXPECT_TRUE(peer.running[0]->stop_token().stop_requested());
  EXPECT_FALSE(peer.running[1]->stop_token().stop_requested());
  peer.running[1]->finish({.text = "x"});
  EXPECT_EQ(others.size(), 1u);
  EXPECT_TRUE(peer.take().empty());
}

TEST(Cancellation, StopsTheCallAndSilencesIt) {
  for (const bool is_modern : {false, true}) {
    Peer peer;
    const std::string request = call("\"a\"", "wait", kToken);
    peer.send(is_modern ? modern(request) : request);
    EXPECT_TRUE(peer.send(cancel("\"a\"")).empty());
    EXPECT_TRUE(peer.running[0]->stop_token().stop_requested());
    EXPECT_EQ(peer.connection->in_flight(), 0);
    peer.running[0]->progress(1, 2, "half");
    peer.running[0]->finish({.text = "too late"});
    EXPECT_TRUE(peer.take().empty());
    EXPECT_EQ(peer.observed, (std::vector<std::string>{"start wait", "cancelled wait 0"}));
  }
}

TEST(Cancellation, IgnoresWhatItDoesNotKnow) {
  Peer peer;
  peer.send(call("1", "wait"));
  for (const char* id : {"\"1\"", "2", "null", "1.0", "{}", "[1]"}) {
    EXPECT_TRUE(peer.send(cancel(id)).empty()) << id;
  }
  EXPECT_TRUE(peer.send(R"({"jsonrpc":"2.0","method":"notifications/cancelled"})").empty());
  EXPECT_TRUE(
      peer.send(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":[]})").empty());
  EXPECT_EQ(peer.connection->in_flight(), 1);
  peer.running[0]->finish({.text = "x"});
  EXPECT_EQ(peer.take().size(), 1u);
  EXPECT_TRUE(peer.send(cancel("1")).empty());  // after completion
}

TEST(Cancellation, SurvivesAStopCallbackThatFinishes) {
  Peer peer;
  peer.send(call("1", "wait"));
  const auto running = peer.running[0];
  std::stop_callback finish(running->stop_token(), [&] { running->finish({.text = "stopped"}); });
  EXPECT_TRUE(peer.send(cancel("1")).empty());
}

TEST(Progress, NeedsATokenAndIncreases) {
  Peer peer;
  peer.send(call("1", "wait"));
  EXPECT_FALSE(peer.running[0]->wants_progress());
  peer.running[0]->progress(1, 2, "");
  EXPECT_TRUE(peer.take().empty());

  peer.send(call("2", "wait", R"(,"_meta":{"progressToken":7})"));
  EXPECT_TRUE(peer.running[1]->wants_progress());
  peer.running[1]->progress(1, 4, "one\x1B[31m");
  EXPECT_EQ(peer.take(), std::vector<json>{json::parse(
                             R"({"jsonrpc":"2.0","method":"notifications/progress","params":{
                                 "progressToken":7,"progress":1.0,"total":4.0,
           "message":"one"}})")});
  peer.now += std::chrono::seconds(1);
  peer.running[1]->progress(1, 4, "the same");
  peer.running[1]->progress(0.5, 4, "less");
  EXPECT_TRUE(peer.take().empty());
}

TEST(Progress, IsRateLimitedButTellsTheEnd) {
  Peer peer;
  peer.send(call("1", "wait", kToken));
  std::vector<double> told;
  for (int step = 1; step <= 100; ++step) {
    peer.running[0]->progress(step, 100, "");
    peer.now += std::chrono::milliseconds(10);
    for (const json& each : peer.take()) told.push_back(each["params"]["progress"]);
  }
  EXPECT_EQ(told, (std::vector<double>{1, 11, 21, 31, 41, 51, 61, 71, 81, 91, 100}));
  peer.running[0]->finish({.text = "x"});
  peer.take();
  peer.now += std::chrono::seconds(1);
  peer.running[0]->progress(101, std::nullopt, "after the end");
  EXPECT_TRUE(peer.take().empty());
}

TEST(Progress, HasNoMessageIn2024_11_05) {
  Peer peer;
  peer.initialize("2024-11-05");
  peer.send(call("1", "wait", kToken));
  peer.running[0]->progress(1, std::nullopt, "words");
  EXPECT_EQ(peer.take()[0]["params"], (json{{"progressToken", "t"}, {"progress", 1.0}}));
}

TEST(Limits, TooManyCallsAreToolErrors) {
  Peer peer({.in_flight_max = 2});
  peer.send(call("1", "wait"));
  peer.send(call("2", "wait"));
  const json refused = peer.ask(call("3", "wait"));
  EXPECT_EQ(refused["result"]["isError"], true);
  const json unheard = peer.ask(modern(
      R"({"jsonrpc":"2.0","id":4,"method":"subscriptions/listen","params":{"notifications":{}}})"));
  EXPECT_EQ(unheard["error"]["code"], 429);
  EXPECT_TRUE(peer.ask(kPing).contains("result"));
  peer.running[0]->finish({.text = "x"});
  peer.take();
  EXPECT_TRUE(peer.send(call("3", "wait")).empty());
  EXPECT_EQ(peer.running.size(), 3u);
}

TEST(Batches, AreAnsweredTogetherWhenTheLastCallEnds) {
  Peer peer;
  peer.initialize("2025-03-26");
  const std::string batch = "[" + call("1", "wait") + "," + kPing +
                            R"(,{"jsonrpc":"2.0","method":"notifications/x"},7,)" +
                            R"({"jsonrpc":"2.0","id":9,"result":{}},)" + call("2", "wait") + "]";
  EXPECT_TRUE(peer.send(batch).empty());
  peer.running[1]->finish({.text = "two"});
  EXPECT_TRUE(peer.take().empty());
  EXPECT_TRUE(peer.send(cancel("1")).size() == 1u);  // nothing else is missing
  const json sent = json::parse(peer.raw.back());
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0]["id"], "p");
  EXPECT_EQ(sent[1]["error"]["code"], -32600);
  EXPECT_EQ(sent[2]["id"], 2);
}

TEST(Batches, OfNotificationsOrCancelledCallsGetNoReply) {
  Peer peer;
  peer.initialize("2025-03-26");
  EXPECT_TRUE(peer.send(R"([{"jsonrpc":"2.0","method":"x"}])").empty());
  EXPECT_TRUE(peer.send("[" + call("1", "wait") + "," + cancel("1") + "]").empty());
}

TEST(Batches, HaveALimitAndNoHandshakeOrModernRequests) {
  Peer peer({.batch_messages_max = 2});
  peer.initialize("2025-03-26");
  const std::string ping = kPing;
  EXPECT_EQ(peer.ask("[" + ping + "," + ping + "," + ping + "]")["error"]["code"], -32600);
  const json replies = peer.ask(
      R"([{"jsonrpc":"2.0","id":1,"method":"initialize",
           "params":{"protocolVersion":"2025-11-25"}},)" +
      modern(R"({"jsonrpc":"2.0","id":2,"method":"tools/list"})") + "]");
  ASSERT_EQ(replies.size(), 2u);
  for (const json& reply : replies) EXPECT_EQ(reply["error"]["code"], -32600);
}

TEST(Observer, HearsOfEveryCallWithItsOutcomeAndTime) {
  Peer peer;
  peer.send(call("1", "wait"));
  peer.now += std::chrono::milliseconds(12);
  peer.running[0]->finish({.text = "x"});
  peer.send(call("2", "wait"));
  peer.running[1]->finish(ToolResult::error("no"));
  peer.send(call("3", "echo"));  // refused arguments
  peer.send(call("4", "lie"));
  EXPECT_EQ(peer.observed,
            (std::vector<std::string>{"start wait", "ok wait 12", "start wait", "error wait 0",
                                      "start echo", "error echo 0", "start lie", "error lie 0"}));
}

TEST(Close, StopsEverythingAndSendsNothing) {
  Peer peer;
  peer.send(call("1", "wait", kToken));
  peer.send(call("2", "wait"));
  peer.connection->close();
  EXPECT_EQ(peer.connection->in_flight(), 0);
  for (const auto& running : peer.running) {
    EXPECT_TRUE(running->stop_token().stop_requested());
    running->progress(1, 2, "");
    running->finish({.text = "x"});
  }
  EXPECT_TRUE(peer.send(kPing).empty());
  EXPECT_TRUE(peer.send(call("3", "wait")).empty());
  EXPECT_EQ(peer.running.size(), 2u);
}

TEST(Close, CallsMayOutliveConnectionAndDispatcher) {
  Peer peer;
  peer.send(call("1", "wait", kToken));
  peer.connection.reset();
  peer.dispatcher.reset();
  EXPECT_TRUE(peer.running[0]->stop_token().stop_requested());
  peer.running[0]->progress(1, 2, "");
  peer.running[0]->finish({.text = "x"});
  EXPECT_TRUE(peer.take().empty());
}

TEST(Reentrancy, SendMayCloseOrDestroyTheConnection) {
  for (const bool destroy : {false, true}) {
    Peer peer;
    peer.initialize("2025-03-26");
    peer.send(call("1", "wait"));
    peer.on_send = [&] {
      if (destroy) {
        peer.connection.reset();
      } else {
        peer.connection->close();
      }
    };
    peer.connection->receive(kPing);
    EXPECT_EQ(peer.take().size(), 1u);
    EXPECT_TRUE(peer.running[0]->stop_token().stop_requested());
  }
}

TEST(Reentrancy, SendMayReceive) {
  Peer peer;
  bool asked = false;
  peer.on_send = [&] {
    if (std::exchange(asked, true)) return;
    peer.connection->receive(call("2", "echo", R"(,"arguments":{"text":"x"})"));
  };
  peer.connection->receive(kPing);
  EXPECT_EQ(peer.take().size(), 2u);
}

TEST(ToolText, IsSanitisedOrTheStructureItself) {
  Peer peer;
  peer.send(call("1", "wait"));
  peer.running[0]->finish({.text = "\x1B[31mred\xFF"});
  EXPECT_EQ(peer.take()[0]["result"]["content"][0]["text"], "red\uFFFD");
  peer.send(call("2", "wait"));
  peer.running[1]->finish({.structured = {{"a", 1}}});
  const json result = peer.take()[0]["result"];
  EXPECT_EQ(result["content"][0]["text"], R"({"a":1})");
  EXPECT_EQ(result["structuredContent"], (json{{"a", 1}}));
}

}  // namespace
}  // namespace engramd::mcp
