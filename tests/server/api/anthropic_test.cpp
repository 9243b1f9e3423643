#include <gmock/gmock.h>

#include "tests/server/api/api_fixture.h"

namespace engramd::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kMessages[] = "/v1/messages";

json ask(json more = json::object()) {
  json body = {{"model", "engram-nano"},
               {"max_tokens", 12},
               {"messages", {{{"role", "user"}, {"content", "What is the capital of France?"}}}}};
  body.update(more);
  return body;
}

class AnthropicTest : public ApiTest {
 protected:
  void SetUp() override { load(); }
};

TEST_F(AnthropicTest, AMessageHasEveryMember) {
  const auto exchange = post(kMessages, ask({{"temperature", 0}}));
  ASSERT_EQ(exchange->status(), 200) << exchange->response().body;
  EXPECT_EQ(exchange->header("request-id"), "req_test");
  const json body = exchange->body();
  EXPECT_THAT(body["id"].get<std::string>(), StartsWith("msg_"));
  EXPECT_EQ(body["type"], "message");
  EXPECT_EQ(body["role"], "assistant");
  EXPECT_EQ(body["model"], "engram-nano");
  EXPECT_EQ(body["content"][0]["type"], "text");
  EXPECT_THAT(body["content"][0]["text"].get<std::string>(), HasSubstr("Paris"));
  EXPECT_EQ(body["stop_reason"], "end_turn");
  EXPECT_TRUE(body.at("stop_sequence").is_null());
  EXPECT_GT(body["usage"]["input_tokens"], 0);
  EXPECT_GT(body["usage"]["output_tokens"], 0);
}

TEST_F(AnthropicTest, AStreamHasTheEventsInOrder) {
  const json whole = post(kMessages, ask())->body();
  const auto exchange = post(kMessages, ask({{"stream", true}}));
  const auto events = parse_events(exchange->text());
  std::string text;
  std::vector<std::string> names;
  for (const Event& event : events) {
    EXPECT_EQ(event.value()["type"], event.name);
    if (event.name == "content_block_delta") {
      EXPECT_EQ(event.value()["index"], 0);
      EXPECT_EQ(event.value()["delta"]["type"], "text_delta");
      text += event.value()["delta"]["text"];
      if (names.back() == event.name) continue;
    }
    names.push_back(event.name);
  }
  EXPECT_THAT(names, ElementsAre("message_start", "content_block_start", "content_block_delta",
                                 "content_block_stop", "message_delta", "message_stop"));
  EXPECT_EQ(text, whole["content"][0]["text"]);
  const json start = events.front().value()["message"];
  EXPECT_EQ(start["content"], json::array());
  EXPECT_GT(start["usage"]["input_tokens"], 0);
  EXPECT_TRUE(start.at("stop_reason").is_null());
  const json end = events[events.size() - 2].value();
  EXPECT_EQ(end["delta"]["stop_reason"], "end_turn");
  EXPECT_EQ(end["usage"]["output_tokens"], whole["usage"]["output_tokens"]);
}

TEST_F(AnthropicTest, StopReasonsAreTold) {
  const json stopped = post(kMessages, ask({{"stop_sequences", {"aris"}}}))->body();
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], "aris");
  EXPECT_EQ(post(kMessages, ask({{"max_tokens", 1}}))->body()["stop_reason"], "max_tokens");
}

TEST_F(AnthropicTest, SystemBlocksToolsResultsAndUnknownFieldsAreRead) {
  const json request = json::parse(R"({"model": "deepseek-chat", "max_tokens": 4, "top_k": 5,
      "top_p": 0.9, "temperature": 1, "metadata": {"user_id": "u"},
      "thinking": {"type": "disabled"}, "context_management": {}, "tools": [],
      "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
      "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Call it."}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t", "is_error": true,
             "content": [{"type": "text", "text": "42"}]},
            {"type": "tool_result", "tool_use_id": "t", "content": "43"},
            {"type": "text", "text": "And?"}]}]})");
  const auto exchange = post("/api/v1/messages", request);
  EXPECT_EQ(exchange->status(), 200) << exchange->response().body;
}

TEST_F(AnthropicTest, ABegunAnswerGoesOn) {
  json request = ask();
  request["messages"].push_back({{"role", "assistant"}, {"content", "The capital of"}});
  const json body = post(kMessages, request)->body();
  EXPECT_THAT(body["content"][0]["text"].get<std::string>(), StartsWith(" France is"));
}

TEST_F(AnthropicTest, TokensAreCounted) {
  const auto counted = post("/v1/messages/count_tokens",
                            {{"model", "engram-nano"}, {"messages", ask()["messages"]}});
  ASSERT_EQ(counted->status(), 200);
  EXPECT_EQ(counted->body().size(), 1U);
  const json usage = post(kMessages, ask())->body()["usage"];
  EXPECT_EQ(counted->body()["input_tokens"].get<int>(),
            usage["input_tokens"].get<int>() + usage["cache_read_input_tokens"].get<int>());
}

TEST_F(AnthropicTest, RefusalsHaveAnthropicsShape) {
  struct Case {
    const char* body;
    int status;
    const char* type;
    const char* words;
  };
  const Case cases[] = {
      {"{", 400, "invalid_request_error", "not valid JSON"},
      {R"({"messages": [{"role": "user", "content": "x"}]})", 400, "invalid_request_error",
       "max_tokens: required"},
      {R"({"max_tokens": 5})", 400, "invalid_request_error", "messages"},
      {R"({"max_tokens": 5, "messages": [{"role": "x", "content": "y"}]})", 400,
       "invalid_request_error", "role"},
      {R"({"max_tokens": 5, "messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]})",
       400, "invalid_request_error", "messages[0].content[0].type"},
      {R"({"max_tokens": 5, "messages": [{"role": "user", "content": "x"}],
           "tools": [{"name": "f"}]})",
       400, "invalid_request_error", "no tools"},
      {R"({"max_tokens": 5, "messages": [{"role": "user", "content": "x"}], "model": "claude"})",
       404, "not_found_error", "claude"}};
  for (const Case& refused : cases) {
    const auto exchange = send("POST", kMessages, refused.body);
    SCOPED_TRACE(refused.body);
    EXPECT_EQ(exchange->status(), refused.status);
    const json body = exchange->body();
    EXPECT_EQ(body.at("type"), "error");
    EXPECT_EQ(body.at("error").at("type"), refused.type);
    EXPECT_THAT(body["error"]["message"].get<std::string>(), HasSubstr(refused.words));
    EXPECT_EQ(body.at("request_id"), exchange->header("request-id"));
  }
}

}  // namespace
}  // namespace engramd::server
