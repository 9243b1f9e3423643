#include <cmath>
#include <cstring>

#include <gmock/gmock.h>

#include "tests/server/api/api_fixture.h"

namespace engramd::server {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const json kQuestion = {{{"role", "user"}, {"content", "What is the capital of France?"}}};

json chat(json more = json::object()) {
  json body = {{"model", "engram-nano"}, {"messages", kQuestion}, {"max_tokens", 12}};
  body.update(more);
  return body;
}

class OpenAiTest : public ApiTest {
 protected:
  void SetUp() override { load(); }

  std::vector<json> stream(const std::string& path, json body) {
    body["stream"] = true;
    const auto exchange = post(path, body);
    EXPECT_EQ(exchange->status(), 200);
    EXPECT_EQ(exchange->response().content_type, "text/event-stream");
    EXPECT_EQ(exchange->header("Cache-Control"), "no-cache");
    EXPECT_EQ(exchange->header("X-Accel-Buffering"), "no");
    const auto events = parse_events(exchange->text());
    std::vector<json> chunks;
    for (const Event& event : events) {
      EXPECT_EQ(event.name, "");
      if (event.data != "[DONE]") chunks.push_back(event.value());
    }
    EXPECT_EQ(chunks.size() + 1, events.size());
    EXPECT_EQ(events.back().data, "[DONE]");
    return chunks;
  }
};

TEST_F(OpenAiTest, AChatAnswerHasEveryMember) {
  const auto exchange = post("/v1/chat/completions", chat());
  ASSERT_EQ(exchange->status(), 200) << exchange->response().body;
  EXPECT_EQ(exchange->response().content_type, "application/json");
  const json body = exchange->body();
  EXPECT_THAT(body.at("id").get<std::string>(), StartsWith("chatcmpl-"));
  EXPECT_EQ(body.at("object"), "chat.completion");
  EXPECT_TRUE(body.at("created").is_number_integer());
  EXPECT_EQ(body.at("model"), "engram-nano");
  const json& choice = body.at("choices").at(0);
  EXPECT_EQ(choice.at("index"), 0);
  EXPECT_EQ(choice.at("message").at("role"), "assistant");
  EXPECT_THAT(choice.at("message").at("content").get<std::string>(), HasSubstr("Paris"));
  EXPECT_TRUE(choice.at("message").at("refusal").is_null());
  EXPECT_TRUE(choice.at("logprobs").is_null());
  EXPECT_EQ(choice.at("finish_reason"), "stop");
  const json& usage = body.at("usage");
  EXPECT_GT(usage.at("prompt_tokens"), 0);
  EXPECT_EQ(usage.at("total_tokens").get<int>(),
            usage.at("prompt_tokens").get<int>() + usage.at("completion_tokens").get<int>());
  EXPECT_EQ(metrics_.since_start().tools.at("chat.completions").requests, 1);
  EXPECT_EQ(metrics_.running(), 0);
}

TEST_F(OpenAiTest, EveryBasePathAndAliasAnswersAlike) {
  const std::string text =
      post("/v1/chat/completions", chat())->body()["choices"][0]["message"]["content"];
  for (const char* path : {"/chat/completions", "/api/chat/completions", "/api/v1/chat/completions",
                           "/v1/chat/completions/"}) {
    const auto exchange = post(path, chat({{"model", "deepseek-chat"}}));
    ASSERT_EQ(exchange->status(), 200) << path;
    EXPECT_EQ(exchange->body()["choices"][0]["message"]["content"], text) << path;
  }
}

TEST_F(OpenAiTest, AStreamSaysWhatTheWholeAnswerSays) {
  const json whole = post("/v1/chat/completions", chat())->body();
  const auto chunks = stream("/v1/chat/completions", chat());
  ASSERT_GE(chunks.size(), 3U);
  EXPECT_EQ(chunks[0]["choices"][0]["delta"]["role"], "assistant");
  std::string text;
  for (const json& chunk : chunks) {
    EXPECT_EQ(chunk.at("object"), "chat.completion.chunk");
    EXPECT_EQ(chunk.at("id"), chunks[0].at("id"));
    EXPECT_EQ(chunk.at("created"), chunks[0].at("created"));
    EXPECT_FALSE(chunk.contains("usage"));
    const json& choice = chunk.at("choices").at(0);
    text += choice.at("delta").value("content", "");
    const bool last = &chunk == &chunks.back();
    EXPECT_EQ(choice.at("finish_reason").is_null(), !last);
  }
  EXPECT_EQ(chunks.back()["choices"][0]["delta"], json::object());
  EXPECT_EQ(chunks.back()["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(text, whole["choices"][0]["message"]["content"]);
}

TEST_F(OpenAiTest, UsageComesInOneLastChunkWhenAskedFor) {
  const auto chunks =
      stream("/v1/chat/completions", chat({{"stream_options", {{"include_usage", true}}}}));
  for (const json& chunk : chunks) {
    EXPECT_EQ(chunk.at("usage").is_null(), &chunk != &chunks.back());
  }
  EXPECT_EQ(chunks.back().at("choices"), json::array());
  EXPECT_GT(chunks.back()["usage"]["completion_tokens"], 0);
}

TEST_F(OpenAiTest, SeveralChoicesDifferAndASeedRepeatsThem) {
  const json request =
      chat({{"n", 3},
            {"temperature", 2},
            {"seed", 7},
            {"max_completion_tokens", 24},
            {"messages", {{{"role", "user"}, {"content", "Tell me a story about a fox."}}}}});
  const json first = post("/v1/chat/completions", request)->body();
  ASSERT_EQ(first.at("choices").size(), 3U);
  EXPECT_NE(first["choices"][0]["message"], first["choices"][1]["message"]);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(first["choices"][i]["index"], i);
  EXPECT_EQ(post("/v1/chat/completions", request)->body()["choices"], first["choices"]);
  std::vector<std::string> texts(3);
  for (const json& chunk : stream("/v1/chat/completions", request)) {
    const json& choice = chunk["choices"][0];
    texts[choice["index"].get<std::size_t>()] += choice["delta"].value("content", "");
  }
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_EQ(texts[i], first["choices"][i]["message"]["content"]);
}

TEST_F(OpenAiTest, StopTextsAndLengthEndAnAnswer) {
  const json stopped = post("/v1/chat/completions", chat({{"stop", "aris"}}))->body();
  EXPECT_EQ(stopped["choices"][0]["finish_reason"], "stop");
  EXPECT_THAT(stopped["choices"][0]["message"]["content"].get<std::string>(),
              ::testing::Not(HasSubstr("aris")));
  const json listed = post("/v1/chat/completions", chat({{"stop", {"zzz", "aris"}}}))->body();
  EXPECT_EQ(listed["choices"], stopped["choices"]);
  const json cut = post("/v1/chat/completions", chat({{"max_tokens", 1}}))->body();
  EXPECT_EQ(cut["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(cut["usage"]["completion_tokens"], 1);
}

std::string bytes_of(const json& tokens) {
  std::string text;
  for (const json& token : tokens) {
    for (const json& byte : token.at("bytes")) text += static_cast<char>(byte.get<int>());
  }
  return text;
}

TEST_F(OpenAiTest, LogprobsConcatenateToTheContent) {
  for (const json& more : {json{{"max_tokens", 12}}, json{{"stop", "is"}}}) {
    json request = chat({{"logprobs", true}, {"top_logprobs", 3}});
    request.update(more);
    const json choice = post("/v1/chat/completions", request)->body()["choices"][0];
    const json& tokens = choice["logprobs"]["content"];
    ASSERT_FALSE(tokens.empty());
    const std::string content = choice["message"]["content"];
    EXPECT_THAT(bytes_of(tokens), StartsWith(content));
    for (const json& token : tokens) {
      ASSERT_EQ(token["top_logprobs"].size(), 3U);
      EXPECT_EQ(token["top_logprobs"][0]["token"], token["token"]);  // greedy
      EXPECT_DOUBLE_EQ(token["top_logprobs"][0]["logprob"], token["logprob"]);
      EXPECT_LE(token["logprob"], 0);
      EXPECT_GE(token["top_logprobs"][0]["logprob"], token["top_logprobs"][1]["logprob"]);
    }
    json streamed = json::array();
    for (const json& chunk : stream("/v1/chat/completions", request)) {
      const json& logprobs = chunk["choices"][0]["logprobs"];
      if (logprobs.is_null()) continue;
      for (const json& token : logprobs["content"]) streamed.push_back(token);
    }
    EXPECT_EQ(bytes_of(streamed), bytes_of(tokens));
  }
  const json chosen_only = post("/v1/chat/completions", chat({{"logprobs", true}}))->body();
  EXPECT_EQ(chosen_only["choices"][0]["logprobs"]["content"][0]["top_logprobs"], json::array());
}

TEST_F(OpenAiTest, EveryRoleAndFormOfContentIsRead) {
  const json messages = json::parse(R"([
      {"role": "developer", "content": "Be brief."},
      {"role": "system", "content": [{"type": "text", "text": "Answer "},
                                     {"type": "text", "text": "truthfully."}]},
      {"role": "user", "content": "Call it.", "name": "ann"},
      {"role": "assistant", "content": null, "refusal": null, "tool_calls": [
          {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
      {"role": "tool", "tool_call_id": "1", "content": "42"},
      {"role": "function", "name": "f", "content": "43"},
      {"role": "user", "content": "What is the capital of France?"}])");
  const auto exchange = post("/v1/chat/completions", chat({{"messages", messages},
                                                           {"user", "u"},
                                                           {"store", nullptr},
                                                           {"some_future_field", {{"a", 1}}},
                                                           {"stop", nullptr}}));
  EXPECT_EQ(exchange->status(), 200) << exchange->response().body;
}

TEST_F(OpenAiTest, JsonIsWhatItWasAskedToBe) {
  const json schema = json::parse(R"({"type": "object", "properties": {
      "city": {"type": "string", "maxLength": 20}, "population": {"type": "integer"},
      "capital": {"type": "boolean"}, "kind": {"enum": ["town", "city"]}},
      "required": ["city", "population", "capital", "kind"], "additionalProperties": false})");
  const json format = {{"type", "json_schema"},
                       {"json_schema", {{"name", "city"}, {"strict", true}, {"schema", schema}}}};
  const json body =
      post("/v1/chat/completions", chat({{"response_format", format}, {"max_tokens", 200}}))
          ->body();
  ASSERT_EQ(body["choices"][0]["finish_reason"], "stop") << body;
  const json answer = json::parse(body["choices"][0]["message"]["content"].get<std::string>());
  EXPECT_EQ(answer.size(), 4U);
  EXPECT_TRUE(answer.at("city").is_string());
  EXPECT_TRUE(answer.at("population").is_number_integer());
  EXPECT_TRUE(answer.at("capital").is_boolean());
  const json any = post("/v1/chat/completions",
                        chat({{"response_format", {{"type", "json_object"}}}, {"max_tokens", 400}}))
                       ->body();
  const std::string text = any["choices"][0]["message"]["content"];
  EXPECT_THAT(text, StartsWith("{"));
  EXPECT_EQ(any["choices"][0]["finish_reason"] == "stop",
            json::parse(text, nullptr, false).is_object());
}

TEST_F(OpenAiTest, SchemaOrderIsTheOrderSent) {
  // nlohmann::json would sort the keys: the body is text.
  const std::string body = R"({"model": "engram-nano", "max_tokens": 60, "messages":
      [{"role": "user", "content": "x"}], "response_format": {"type": "json_schema", "json_schema":
      {"name": "n", "schema": {"type": "object", "required": ["z", "a"], "properties":
      {"z": {"type": "boolean"}, "a": {"type": "null"}}}}}})";
  const json answer = send("POST", "/v1/chat/completions", body)->body();
  EXPECT_THAT(answer["choices"][0]["message"]["content"].get<std::string>(), StartsWith("{\"z\":"));
}

TEST_F(OpenAiTest, CompletionsTakeTextAndTokens) {
  const json request = {
      {"model", "engram-nano"}, {"prompt", "The capital of France is"}, {"max_tokens", 4}};
  const json body = post("/v1/completions", request)->body();
  EXPECT_EQ(body.at("object"), "text_completion");
  const std::string text = body["choices"][0]["text"];
  EXPECT_FALSE(text.empty());

  const auto ids = engine().encode_text("The capital of France is").value();
  json by_tokens = request;
  by_tokens["prompt"] = ids;
  EXPECT_EQ(post("/v1/completions", by_tokens)->body()["choices"], body["choices"]);

  json several = request;
  several["prompt"] = {"The capital of France is", "Water is"};
  several["n"] = 2;
  several["echo"] = true;
  const json list = post("/v1/completions", several)->body();
  ASSERT_EQ(list["choices"].size(), 4U);
  EXPECT_EQ(list["choices"][1]["text"], "The capital of France is" + text);
  EXPECT_THAT(list["choices"][3]["text"].get<std::string>(), StartsWith("Water is"));

  std::string streamed;
  for (const json& chunk : stream("/v1/completions", request)) {
    streamed += chunk["choices"][0]["text"];
  }
  EXPECT_EQ(streamed, text);
}

TEST_F(OpenAiTest, CompletionLogprobsLineUpWithTheText) {
  const json body =
      post("/v1/completions",
           {{"model", "engram-nano"}, {"prompt", "One, two,"}, {"max_tokens", 6}, {"logprobs", 2}})
          ->body();
  const json& choice = body["choices"][0];
  const json& logprobs = choice["logprobs"];
  std::string text;
  for (std::size_t i = 0; i < logprobs["tokens"].size(); ++i) {
    EXPECT_EQ(logprobs["text_offset"][i], text.size());
    EXPECT_EQ(logprobs["top_logprobs"][i].size(), 2U);
    EXPECT_EQ(logprobs["top_logprobs"][i][logprobs["tokens"][i].get<std::string>()],
              logprobs["token_logprobs"][i]);
    text += logprobs["tokens"][i];
  }
  EXPECT_EQ(text, choice["text"]);
}

std::vector<float> floats_of_base64(const std::string& text) {
  const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  std::uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = (bits << 6U) | static_cast<std::uint32_t>(alphabet.find(c));
    if ((n_bits += 6) < 8) continue;
    n_bits -= 8;
    bytes += static_cast<char>((bits >> static_cast<unsigned>(n_bits)) & 0xFFU);
  }
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

TEST_F(OpenAiTest, EmbeddingsComeAsFloatsAndAsBase64) {
  json request = {{"model", "engram-nano"}, {"input", {"A cat sleeps.", "A dog sleeps.", "7"}}};
  const json floats = post("/v1/embeddings", request)->body();
  ASSERT_EQ(floats.at("data").size(), 3U);
  EXPECT_EQ(floats["object"], "list");
  EXPECT_GT(floats["usage"]["prompt_tokens"], 6);
  request["encoding_format"] = "base64";
  const json packed = post("/v1/embeddings", request)->body();
  for (std::size_t i = 0; i < 3; ++i) {
    const auto vector = floats["data"][i]["embedding"].get<std::vector<float>>();
    EXPECT_EQ(floats["data"][i]["index"], i);
    EXPECT_EQ(static_cast<int>(vector.size()), engine().facts().hidden_size);
    double norm = 0;
    for (const float value : vector) norm += static_cast<double>(value) * value;
    EXPECT_NEAR(norm, 1, 1e-5);
    EXPECT_EQ(floats_of_base64(packed["data"][i]["embedding"]), vector);
  }
  const auto ids = engine().encode_text("7").value();
  const json by_tokens =
      post("/v1/embeddings", {{"model", "engram-nano"}, {"input", {ids}}})->body();
  EXPECT_EQ(by_tokens["data"][0]["embedding"], floats["data"][2]["embedding"]);
}

TEST_F(OpenAiTest, ModelsAreListedUnderEveryName) {
  const json list = send("GET", "/v1/models")->body();
  ASSERT_EQ(list["data"].size(), 2U);
  EXPECT_EQ(list["data"][0]["id"], "engram-nano");
  EXPECT_EQ(list["data"][0]["object"], "model");
  EXPECT_EQ(list["data"][0]["owned_by"], "engramd");
  EXPECT_EQ(list["data"][1]["id"], "deepseek-chat");
  EXPECT_EQ(list["has_more"], false);
  EXPECT_EQ(send("GET", "/api/v1/models/deepseek-chat")->body()["id"], "deepseek-chat");
  const auto missing = send("GET", "/v1/models/org/name:latest");
  EXPECT_EQ(missing->status(), 404);
  EXPECT_THAT(missing->body()["error"]["message"].get<std::string>(), HasSubstr("org/name:latest"));
}

}  // namespace
}  // namespace engramd::server
