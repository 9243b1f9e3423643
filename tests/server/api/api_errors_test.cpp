// What is refused, in which words, and what happens around an answer: waiting, leaving, full
// queues.
#include <gmock/gmock.h>

#include "tests/server/api/api_fixture.h"

namespace engramd::server {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

class ApiErrorsTest : public ApiTest {};

struct Refusal {
  const char* path;
  const char* body;
  int status;
  const char* param;  // "": null
  const char* words;
};

constexpr char kChat[] = "/v1/chat/completions";
constexpr char kText[] = "/v1/completions";
constexpr char kVectors[] = "/v1/embeddings";

const Refusal kOpenAiRefusals[] = {
    {kChat, "{", 400, "", "not valid JSON"},
    {kChat, "[]", 400, "", "must be a JSON object"},
    {kChat, "{\"messages\": \"\xFF\"}", 400, "", "not valid JSON"},
    {kChat, "{}", 400, "messages", "expected at least one message"},
    {kChat, R"({"messages": []})", 400, "messages", "expected at least one message"},
    {kChat, R"({"messages": 3})", 400, "messages", "expected an array, got number"},
    {kChat, R"({"messages": [3]})", 400, "messages[0]", "expected an object"},
    {kChat, R"({"messages": [{"role": "king", "content": "x"}]})", 400, "messages[0].role", "king"},
    {kChat, R"({"messages": [{"role": "user"}]})", 400, "messages[0].content", "required"},
    {kChat, R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})", 400,
     "messages[0].content[0].type", "text only"},
    {kChat, R"({"messages": [{"role": "user", "content": "x"}], "temperature": 3})", 400,
     "temperature", "expected 0 to 2, got 3"},
    {kChat, R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": 0})", 400,
     "max_tokens", "got 0"},
    {kChat, R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": 1.5})", 400,
     "max_tokens", "whole number"},
    {kChat, R"({"messages": [{"role": "user", "content": "x"}], "n": 17})", 400, "n", "1 to 16"},
    {kChat, R"({"messages": [{"role": "user", "content": "x"}], "stop": 5})", 400, "stop",
     "string"},
    {kChat, R"({"messages": [{"role": "user", "content": "x"}], "stream": "yes"})", 400, "stream",
     "true or false"},
    {kChat, R"({"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function"}]})",
     400, "tools", "no tools"},
    {kChat, R"({"messages": [{"role": "user", "content": "x"}], "tool_choice": "required"})", 400,
     "tool_choice", "no tools"},
    {kChat, R"({"messages": [{"role": "user", "content": "x"}], "modalities": ["text", "audio"]})",
     400, "modalities", "text only"},
    {kChat, R"({"messages": [{"role": "user", "content": "x"}], "top_logprobs": 2})", 400,
     "top_logprobs", "logprobs true"},
    {kChat, R"({"messages": [{"role": "user", "content": "x"}], "logit_bias": {"a": 1}})", 400,
     "logit_bias", "token ids"},
    {kChat, R"({"messages": [{"role": "user", "content": "x"}], "logit_bias": {"99999": 1}})", 400,
     "", "99999"},
    {kChat, R"({"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "x"}})",
     400, "response_format.type", "json_schema"},
    {kChat, R"({"messages": [{"role": "user", "content": "x"}], "response_format":
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"pattern": "a"}}}})",
     400, "response_format.json_schema.schema", "pattern"},
    {kChat, R"({"messages": [{"role": "user", "content": "x"}], "model": "engram-nan"})", 404,
     "model", "did you mean \"engram-nano\""},
    {kText, "{}", 400, "prompt", "required"},
    {kText, R"({"prompt": []})", 400, "prompt", "at least one"},
    {kText, R"({"prompt": ["a", 5]})", 400, "prompt", "expected a string"},
    {kText, R"({"prompt": ""})", 400, "prompt", "at least one"},
    {kText, R"({"prompt": [-1]})", 400, "prompt", "expected a string"},
    {kText, R"({"prompt": [999999]})", 400, "", "999999"},
    {kText, R"({"prompt": "a", "suffix": "b"})", 400, "suffix", "fill in"},
    {kText, R"({"prompt": "a", "best_of": 2})", 400, "best_of", "ranked"},
    {kText, R"({"prompt": "a", "echo": true, "logprobs": 1})", 400, "echo", "logprobs"},
    {kVectors, "{}", 400, "input", "required"},
    {kVectors, R"({"input": "a", "dimensions": 8})", 400, "dimensions", "fixed"},
    {kVectors, R"({"input": "a", "encoding_format": "int8"})", 400, "encoding_format", "int8"},
    {kVectors, R"({"input": [[999999]]})", 400, "", "999999"},
    {"/v1/responses", "{}", 404, "", "no such endpoint"},
    {"/register", "{}", 404, "", "no such endpoint"},
};

TEST_F(ApiErrorsTest, OpenAiRefusalsHaveOneShape) {
  load();
  for (const Refusal& refusal : kOpenAiRefusals) {
    const auto exchange = send("POST", refusal.path, refusal.body);
    SCOPED_TRACE(std::string(refusal.path) + " " + refusal.body);
    EXPECT_EQ(exchange->status(), refusal.status);
    EXPECT_EQ(exchange->response().content_type, "application/json");
    EXPECT_EQ(exchange->header("x-should-retry"), "false");
    const json error = exchange->body().at("error");
    EXPECT_EQ(error.size(), 4U);
    EXPECT_THAT(error.at("message").get<std::string>(), HasSubstr(refusal.words));
    EXPECT_EQ(error.at("type"), "invalid_request_error");
    if (*refusal.param == '\0') {
      EXPECT_TRUE(error.at("param").is_null()) << error;
    } else {
      EXPECT_EQ(error.at("param"), refusal.param);
    }
  }
  EXPECT_EQ(metrics_.running(), 0);
}

TEST_F(ApiErrorsTest, AStreamIsRefusedWithAStatusToo) {
  load();
  const auto exchange = post(kChat, {{"messages", {{{"role", "user"}, {"content", "x"}}}},
                                     {"stream", true},
                                     {"model", "nobody"}});
  EXPECT_EQ(exchange->status(), 404);
  EXPECT_EQ(exchange->body()["error"]["code"], "model_not_found");
}

TEST_F(ApiErrorsTest, NestingIsBounded) {
  load();
  std::string body = R"({"messages": )";
  for (int i = 0; i < 100000; ++i) body += "[";
  const auto exchange = send("POST", kChat, body);
  EXPECT_EQ(exchange->status(), 400);
  EXPECT_THAT(exchange->body()["error"]["message"].get<std::string>(), HasSubstr("json_depth_max"));
}

TEST_F(ApiErrorsTest, APromptBeyondTheContextIsNoServerError) {
  load();
  std::string words;
  for (int i = 0; i < 3000; ++i) words += "word ";
  const json request = {{"messages", {{{"role", "user"}, {"content", words}}}},
                        {"max_tokens", 32000},
                        {"stream", true}};
  const auto openai = post(kChat, request);
  EXPECT_EQ(openai->status(), 400);
  EXPECT_EQ(openai->body()["error"]["code"], "context_length_exceeded");
  const auto anthropic = post("/v1/messages", request);
  EXPECT_EQ(anthropic->status(), 400);
  EXPECT_THAT(anthropic->body()["error"]["message"].get<std::string>(),
              HasSubstr("prompt is too long"));
}

TEST_F(ApiErrorsTest, PathsAndMethodsAreAnsweredInJson) {
  EXPECT_EQ(send("GET", "/")->body()["name"], "engramd");
  for (const char* path : {"/.well-known/oauth-protected-resource", "/.well-known/openid-config",
                           "/v2/models", "/favicon.ico"}) {
    const auto exchange = send("GET", path);
    EXPECT_EQ(exchange->status(), 404) << path;
    EXPECT_EQ(exchange->body()["error"]["code"], "unknown_url");
  }
  const auto wrong = send("GET", kChat);
  EXPECT_EQ(wrong->status(), 405);
  EXPECT_EQ(wrong->header("Allow"), "POST");
  EXPECT_THAT(wrong->body()["error"]["message"].get<std::string>(), HasSubstr("takes POST"));
  const auto anthropic = send("GET", "/v1/messages");
  EXPECT_EQ(anthropic->status(), 405);
  EXPECT_EQ(anthropic->body()["type"], "error");
  EXPECT_EQ(anthropic->body()["request_id"], anthropic->header("request-id"));
}

TEST_F(ApiErrorsTest, TheFirstRequestsWaitForTheModelWithSignsOfLife) {
  const json request = {
      {"messages", {{{"role", "user"}, {"content", "hi"}}}}, {"stream", true}, {"max_tokens", 2}};
  const auto openai = begin("POST", kChat, request.dump());
  const auto anthropic = begin("POST", "/v1/messages", request.dump());
  EXPECT_FALSE(openai->answered());
  EXPECT_EQ(send("GET", "/ready")->status(), 503);
  EXPECT_EQ(send("GET", "/ready")->body()["status"], "loading");
  EXPECT_EQ(send("GET", "/health")->status(), 200);
  advance(seconds(14));
  EXPECT_TRUE(openai->streamed);
  EXPECT_THAT(openai->text(), HasSubstr(": "));
  EXPECT_THAT(anthropic->text(), HasSubstr("event: ping\n"));
  start_loading();
  run_until([&] { return openai->finished && anthropic->finished; });
  EXPECT_EQ(parse_events(openai->text()).back().data, "[DONE]");
  EXPECT_EQ(parse_events(anthropic->text()).back().name, "message_stop");
  EXPECT_EQ(send("GET", "/ready")->body()["model"], "engram-nano");
}

TEST_F(ApiErrorsTest, WaitingEndsAfterAMinute) {
  const json request = {{"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  const auto whole = begin("POST", kChat, request.dump());
  const auto models = begin("GET", "/v1/models");
  advance(seconds(61));
  for (const auto& exchange : {whole, models}) {
    EXPECT_EQ(exchange->status(), 503);
    EXPECT_EQ(exchange->header("retry-after-ms"), "1000");
    EXPECT_EQ(exchange->header("Retry-After"), "1");
    EXPECT_EQ(exchange->body()["error"]["code"], "model_loading");
  }
}

TEST_F(ApiErrorsTest, AModelThatCannotBeOpenedIsNotWorthARetry) {
  engine_options_.model_folder = "/nowhere";
  start_loading();
  const auto exchange =
      post(kChat, {{"messages", {{{"role", "user"}, {"content", "hi"}}}}, {"stream", true}});
  EXPECT_EQ(exchange->status(), 503);
  EXPECT_EQ(exchange->header("x-should-retry"), "false");
  EXPECT_EQ(send("GET", "/ready")->body()["status"], "failed");
  EXPECT_THAT(send("GET", "/metrics")->response().body, HasSubstr("\nengramd_ready 0\n"));
}

json endless(int max_tokens) {
  return {{"messages", {{{"role", "user"}, {"content", "Count."}}}},
          {"logit_bias", {{"1", -100}}},
          {"max_tokens", max_tokens},
          {"stream", true}};
}

TEST_F(ApiErrorsTest, AClientThatLeavesFreesItsPlace) {
  load();
  const auto exchange = begin("POST", kChat, endless(1900).dump());
  run_until([&] { return exchange->pieces.size() > 3; });
  exchange->leave();
  const std::size_t n = exchange->pieces.size();
  post(kChat, {{"messages", {{{"role", "user"}, {"content", "hi"}}}}, {"max_tokens", 1}});
  const auto embedding = begin("POST", kVectors, R"({"input": "a"})");
  embedding->leave();
  run_until([&] { return engine().stats().requests_cancelled == 1; });
  EXPECT_EQ(engine().stats().running, 0);
  EXPECT_EQ(exchange->pieces.size(), n);
  EXPECT_EQ(metrics_.since_start().tools.at("chat.completions").cancellations, 1);
}

TEST_F(ApiErrorsTest, AFullQueueAsksToComeBack) {
  engine_options_.queue_length_max = 1;
  engine_options_.max_batch_size = 1;
  load();
  std::vector<std::shared_ptr<RecordedExchange>> all;
  for (int i = 0; i < 5; ++i) {
    all.push_back(begin("POST", kChat, endless(1900).dump()));
    if (i == 0)
      run_until([&] { return all[0]->pieces.size() > 3; });  // it runs, the queue is empty
  }
  const auto anthropic = begin("POST", "/v1/messages", endless(1900).dump());
  run_until([&] { return anthropic->answered() && all[4]->answered(); });
  EXPECT_EQ(all[4]->status(), 429);
  EXPECT_EQ(all[4]->header("Retry-After"), "1");
  EXPECT_EQ(all[4]->header("x-should-retry"), "");
  EXPECT_EQ(all[4]->body()["error"]["code"], "rate_limit_exceeded");
  EXPECT_EQ(anthropic->status(), 529);
  EXPECT_EQ(anthropic->body()["error"]["type"], "overloaded_error");
  for (const auto& exchange : all) exchange->leave();
}

TEST_F(ApiErrorsTest, PrometheusCountsWhatHappened) {
  load();
  post(kChat, {{"messages", {{{"role", "user"}, {"content", "What is the capital of France?"}}}},
               {"max_tokens", 3}});
  post(kChat, {{"messages", 1}});
  const auto exchange = send("GET", "/metrics");
  EXPECT_EQ(exchange->response().content_type, "text/plain; version=0.0.4; charset=utf-8");
  const std::string text = exchange->response().body;
  for (const char* line :
       {"engramd_ready 1", "engramd_calls_total{call=\"chat.completions\"} 1",
        "engramd_generated_tokens_total 3", "engramd_chats_total{served_by=\"local\"} 1",
        "engramd_first_token_seconds_count 1", "engramd_calls_running 0",
        "# TYPE engramd_first_token_seconds summary",
        "engramd_engram_bypasses_total{order=\"2\"} "}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n") + line));
  }
  std::size_t begin = 0;
  while (begin < text.size()) {  // a line is a comment, or a name and a number
    const std::size_t end = text.find('\n', begin);
    ASSERT_NE(end, std::string::npos);
    const std::string line = text.substr(begin, end - begin);
    if (!line.starts_with("# ")) {
      EXPECT_THAT(line, ::testing::MatchesRegex(
                            "[a-z_]+(\\{[a-z_]+=\"[^\"]*\"(,[a-z_]+=\"[^\"]*\")*\\})? [0-9.e+-]+"));
    }
    begin = end + 1;
  }
}

}  // namespace
}  // namespace engramd::server
