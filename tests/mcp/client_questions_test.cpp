// Tools that ask the client: requests of ours in the legacy era, multi-round-trip results in the
// modern one. The tool "ask" wants the keys "name" and "colour" answered, one after the other.
#include <gtest/gtest.h>

#include "mcp/sealed_state.h"
#include "tests/mcp/peer.h"

namespace engramd::mcp {
namespace {

json question(const std::string& message) {
  return {{"method", "elicitation/create"}, {"params", {{"message", message}}}};
}

class AskingPeer : public Peer {
 public:
  AskingPeer() {
    registry.tools.push_back(
        {.name = "ask",
         .description = "Asks.",
         .handler = [](const std::shared_ptr<ToolCall>& call) {
           if (!call->client_can("elicitation")) {
             return call->refuse({-32021,
                                  "needs elicitation",
                                  {{"requiredCapabilities", {{"elicitation", json::object()}}}}});
           }
           const json& given = call->inputs().responses;
           if (!given.contains("name") && call->inputs().state.is_null()) {
             return call->require_input({{"name", question("Who?")}}, {{"step", 1}});
           }
           if (!given.contains("colour")) {
             return call->require_input({{"colour", question("Which?")}}, {{"step", 2}});
           }
           call->finish({.text = given["colour"].dump() + call->inputs().state.dump()});
         }});
  }
};

constexpr const char* kCall =
    R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask"}})";

json modern_call(const json& extra, const char* capabilities = R"({"elicitation":{}})") {
  json message = json::parse(modern(kCall));
  message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
      json::parse(capabilities);
  message["params"].update(extra);
  return message;
}

TEST(Questions, ModernClientsGetThemAsAResultAndCallAgain) {
  AskingPeer peer;
  const json first = peer.ask(modern_call(json::object()).dump())["result"];
  EXPECT_EQ(first["resultType"], "input_required");
  EXPECT_EQ(first["inputRequests"]["name"]["method"], "elicitation/create");
  EXPECT_EQ(peer.connection->in_flight(), 0);
  const json second = peer.ask(
      modern_call({{"inputResponses", {{"name", "Ada"}}}, {"requestState", first["requestState"]}})
          .dump())["result"];
  EXPECT_TRUE(second["inputRequests"].contains("colour"));
  EXPECT_NE(second["requestState"], first["requestState"]);
  const json last = peer.ask(modern_call({{"inputResponses", {{"colour", "red"}}},
                                          {"requestState", second["requestState"]}})
                                 .dump())["result"];
  EXPECT_EQ(last["resultType"], "complete");
  EXPECT_EQ(last["content"][0]["text"], R"("red"{"step":2})");
}

TEST(Questions, AStateThatIsNotOursIsRefused) {
  AskingPeer peer;
  AskingPeer other;
  const std::string state = peer.ask(modern_call(json::object()).dump())["result"]["requestState"];
  const json foreign = other.ask(modern_call(json::object()).dump())["result"]["requestState"];
  for (const json& bad :
       {json(state + "x"), json(state.substr(1)), json(""), json("."), json(5), foreign}) {
    const json reply =
        peer.ask(modern_call({{"inputResponses", json::object()}, {"requestState", bad}}).dump());
    EXPECT_EQ(reply["error"]["code"], -32602) << bad;
  }
  for (const char* responses : {"null", "5", "[]", "\"x\""}) {
    const json reply = peer.ask(modern_call({{"inputResponses", json::parse(responses)}}).dump());
    EXPECT_EQ(reply["error"]["code"], -32602) << responses;
  }
}

TEST(Questions, AStateBelongsToItsRequestAndGrowsOld) {
  const StateSeal seal;
  const auto now = std::chrono::steady_clock::now();
  const json request = {"ask", {{"x", 1}}};
  const std::string sealed = seal.seal({{"step", 1}}, request, now);
  EXPECT_EQ(seal.open(sealed, request, now), json({{"step", 1}}));
  EXPECT_FALSE(seal.open(sealed, {"ask", {{"x", 2}}}, now));
  EXPECT_FALSE(seal.open(sealed, request, now + StateSeal::kLifetime + std::chrono::minutes(1)));
}

TEST(Questions, AMissingCapabilityIsAProtocolError) {
  AskingPeer peer;
  const json reply = peer.ask(modern_call(json::object(), "{}").dump());
  EXPECT_EQ(reply["error"]["code"], -32021);
  EXPECT_EQ(reply["error"]["data"]["requiredCapabilities"], json::parse(R"({"elicitation":{}})"));
}

void introduce(Peer& peer) {
  peer.ask(R"({"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":
      "2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"0"}}})");
}

std::string answer(const json& asked, const std::string& member) {
  return R"({"jsonrpc":"2.0","id":)" + asked["id"].dump() + "," + member + "}";
}

TEST(Questions, LegacyClientsGetRequests) {
  AskingPeer peer;
  introduce(peer);
  json asked = peer.ask(kCall);
  EXPECT_EQ(asked["method"], "elicitation/create");
  EXPECT_EQ(asked["params"]["message"], "Who?");
  EXPECT_EQ(peer.connection->in_flight(), 1);
  EXPECT_TRUE(peer.send(R"({"jsonrpc":"2.0","id":"engramd-99","result":{}})").empty());
  asked = peer.ask(answer(asked, R"("result":"Ada")"));
  EXPECT_EQ(asked["params"]["message"], "Which?");
  const json reply = peer.ask(answer(asked, R"("result":"red")"));
  EXPECT_EQ(reply["result"]["content"][0]["text"], R"("red"{"step":2})");
  EXPECT_TRUE(peer.send(answer(asked, R"("result":"late")")).empty());
}

TEST(Questions, AnErrorOfTheClientEndsTheCall) {
  AskingPeer peer;
  introduce(peer);
  const json asked = peer.ask(kCall);
  const json reply = peer.ask(answer(asked, R"("error":{"code":-1,"message":"no person here"})"));
  EXPECT_TRUE(reply["result"]["isError"]);
  EXPECT_NE(reply["result"]["content"][0]["text"].get<std::string>().find("no person here"),
            std::string::npos);
  EXPECT_EQ(peer.connection->in_flight(), 0);
}

TEST(Questions, ACancelledCallAsksInVain) {
  AskingPeer peer;
  introduce(peer);
  const json asked = peer.ask(kCall);
  peer.send(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}})");
  EXPECT_TRUE(peer.send(answer(asked, R"("result":"Ada")")).empty());
}

}  // namespace
}  // namespace engramd::mcp
