#include "server/tools/chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/tools/test_services.h"

namespace engramd::server {
namespace {

using mcp::json;
using testing::ElementsAre;
using testing::HasSubstr;

engine::ChatResult sample_result() {
  engine::ChatResult result;
  result.text = "Paris.";
  result.prompt_tokens = 4;
  result.completion_tokens = 3;
  result.first_token_ms = 5;
  result.total_ms = 9;
  result.decode_tokens_per_s = 900;
  result.served_by = "local";
  result.model = "tiny";
  result.engram_prompt.orders = {{.lookups = 8, .bypassed = 4, .occupied = 4, .owned = 3}};
  result.engram_generated.orders = {{.lookups = 4, .bypassed = 0, .occupied = 2, .owned = 1}};
  return result;
}

class ChatToolTest : public testing::Test {
 protected:
  std::shared_ptr<RecordedCall> run(const json& arguments) {
    const auto checked = mcp::validate(tool_.input, arguments);
    EXPECT_TRUE(checked.has_value()) << checked.error().message;
    auto call = std::make_shared<RecordedCall>(checked.value());
    tool_.handler(call);
    test_.run_posted();
    return call;
  }

  TestServices test_;
  mcp::Tool tool_ = make_chat_tool(test_.services());
};

TEST_F(ChatToolTest, AnswersWithAConformingResult) {
  test_.backend.result = sample_result();
  const auto call = run({{"prompt", "Capital of France?"}});
  ASSERT_TRUE(call->result);
  EXPECT_FALSE(call->result->is_error);
  const json& out = call->result->structured;
  const auto conforms = mcp::validate(tool_.output, out);
  EXPECT_TRUE(conforms.has_value()) << conforms.error().message;
  EXPECT_EQ(out.at("text"), "Paris.");
  EXPECT_EQ(out.at("usage").at("total_tokens"), 7);
  EXPECT_DOUBLE_EQ(out.at("engram").at("engram_hit_rate"), 0.5);
  EXPECT_DOUBLE_EQ(out.at("engram").at("hit_rate_prompt"), 0.75);
  EXPECT_EQ(out.at("engram").at("orders")[0].at("misses"), 4);
  EXPECT_THAT(call->result->text, HasSubstr("Paris."));
  EXPECT_THAT(call->result->text, HasSubstr("local tiny, 3 tokens, 900 tokens/s"));
  EXPECT_THAT(call->result->text, HasSubstr("Engram hit rate 0.50"));
  EXPECT_EQ(test_.metrics.since_start().generated_tokens, 3);
  EXPECT_EQ(test_.metrics.since_start().per_token_ms.count(), 2);
}

TEST_F(ChatToolTest, ProgressGrowsThroughPromptAndAnswer) {
  const auto call = run({{"prompt", "x"}, {"max_tokens", 6}});
  EXPECT_THAT(call->progressed, ElementsAre(4, 5, 6, 7));
}

TEST_F(ChatToolTest, EveryOptionReachesTheBackend) {
  run(json::parse(R"({"messages": [{"role": "system", "content": "be brief"},
                                   {"role": "user", "content": "hi"}],
      "engram": "off", "route": "local", "model": "m", "max_tokens": 7, "temperature": 0.5,
      "top_p": 0.9, "top_k": 3, "min_p": 0.1, "repetition_penalty": 1.1, "presence_penalty": 0.2,
      "frequency_penalty": 0.3, "seed": 9007199254740991, "stop": ["a", "b"],
      "logit_bias": [{"token": 5, "bias": -2}], "top_logprobs": 4})"));
  ASSERT_EQ(test_.backend.requests.size(), 1U);
  const engine::ChatRequest& request = test_.backend.requests[0];
  ASSERT_EQ(request.messages.size(), 2U);
  EXPECT_EQ(request.messages[0].role, "system");
  EXPECT_EQ(request.messages[1].content, "hi");
  EXPECT_FALSE(request.completion);
  EXPECT_FALSE(request.engram_enabled);
  EXPECT_EQ(request.route, engine::Route::kLocal);
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.max_tokens, 7);
  EXPECT_THAT(request.stop, ElementsAre("a", "b"));
  EXPECT_DOUBLE_EQ(request.sampling.temperature, 0.5);
  EXPECT_DOUBLE_EQ(request.sampling.top_p, 0.9);
  EXPECT_EQ(request.sampling.top_k, 3);
  EXPECT_DOUBLE_EQ(request.sampling.min_p, 0.1);
  EXPECT_DOUBLE_EQ(request.sampling.repetition_penalty, 1.1);
  EXPECT_DOUBLE_EQ(request.sampling.presence_penalty, 0.2);
  EXPECT_DOUBLE_EQ(request.sampling.frequency_penalty, 0.3);
  EXPECT_EQ(request.sampling.seed, 9007199254740991U);
  EXPECT_THAT(request.sampling.logit_bias, ElementsAre(std::pair(5, -2.0F)));
  EXPECT_EQ(request.sampling.top_logprobs, 4);
}

TEST_F(ChatToolTest, ExactlyOneSourceOfText) {
  for (const json& arguments : {json::object(), json{{"prompt", "a"}, {"completion", "b"}}}) {
    const auto call = run(arguments);
    ASSERT_TRUE(call->result);
    EXPECT_TRUE(call->result->is_error);
  }
  EXPECT_TRUE(test_.backend.requests.empty());
  run({{"completion", "Once"}});
  EXPECT_EQ(test_.backend.requests.at(0).completion, "Once");
}

// A schema that allows what the engine then refuses sends a model on a round of guessing.
TEST_F(ChatToolTest, TheEngineTakesEveryBoundOfTheSchema) {
  std::size_t n_bounds = 0;
  for (const mcp::Field& field : tool_.input) {
    for (const auto& bound : {field.minimum, field.maximum}) {
      if (!bound) continue;
      const auto checked = mcp::validate(tool_.input, {{"prompt", "x"}, {field.name, *bound}});
      ASSERT_TRUE(checked.has_value()) << checked.error().message;
      const auto request = to_chat_request(checked.value());
      ASSERT_TRUE(request.has_value()) << request.error().message;
      const auto valid = engine::validate(request.value().sampling, 1 << 20);
      EXPECT_TRUE(valid.has_value())
          << field.name << ' ' << *bound << ": " << valid.error().message;
      ++n_bounds;
    }
  }
  EXPECT_GE(n_bounds, 20U);
}

TEST_F(ChatToolTest, WhatSaysNothingIsRefused) {
  for (const char* arguments :
       {R"({"prompt": "x", "stop": [""]})", R"({"prompt": "x", "stop": ["a", ""]})",
        R"({"prompt": "x", "top_p": 0})", R"({"messages": []})"}) {
    EXPECT_FALSE(mcp::validate(tool_.input, json::parse(arguments)).has_value()) << arguments;
  }
  run(json::parse(R"({"prompt": "x", "stop": [], "logit_bias": []})"));
  EXPECT_EQ(test_.backend.requests.size(), 1U) << "no stop texts is what clients send by default";
}

TEST_F(ChatToolTest, FailuresAreToolErrorsWithTheirMessage) {
  test_.backend.result = limit_exceeded("prompt has 9 tokens, the context holds 8");
  EXPECT_THAT(run({{"prompt", "x"}})->result->text, HasSubstr("context holds 8"));
  test_.backend_error = unavailable("model nowhere");
  const auto call = run({{"prompt", "x"}});
  EXPECT_TRUE(call->result->is_error);
  EXPECT_THAT(call->result->text, HasSubstr("model nowhere"));
}

TEST_F(ChatToolTest, LogprobsAppearWhenAskedFor) {
  engine::ChatResult result = sample_result();
  result.tokens = {{{5, -0.5}, {{5, -0.5}, {6, -INFINITY}}}};
  const auto tool_result =
      to_tool_result(result, true, [](engine::TokenId id) { return "t" + std::to_string(id); });
  const auto conforms = mcp::validate(tool_.output, tool_result.structured);
  EXPECT_TRUE(conforms.has_value()) << conforms.error().message;
  EXPECT_EQ(tool_result.structured.at("logprobs")[0].at("text"), "t5");
  EXPECT_EQ(tool_result.structured.at("logprobs")[0].at("top").size(), 1U)
      << "JSON has no infinity";
}

}  // namespace
}  // namespace engramd::server
