// Streams as servers are known to send them, in any pieces.
#include "server/upstream/answer_reader.h"

#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/upstream/sse_parser.h"

namespace engramd::server {
namespace {

using ::testing::HasSubstr;

constexpr std::size_t kEventBytesMax = 4096;

std::vector<SseEvent> events_of(std::string_view bytes, std::size_t piece_bytes) {
  SseParser parser(kEventBytesMax);
  for (std::size_t at = 0; at < bytes.size(); at += piece_bytes) {
    EXPECT_TRUE(parser.push(bytes.substr(at, piece_bytes)));
  }
  parser.finish();
  std::vector<SseEvent> events;
  while (auto event = parser.next()) events.push_back(std::move(*event));
  return events;
}

TEST(SseParser, ReadsEveryLineEndInAnyPieces) {
  const std::string_view bytes =
      "\xef\xbb\xbf: comment\r\ndata: one\r\rdata:two\ndata: three\n\nevent: error\r\ndata: {}\r\n"
      "\r\nid: 7\nretry: 1\n\ndata:\n\n:\n\ndata: [DONE]";
  const std::vector<SseEvent> expected = {
      {"", "one"}, {"", "two\nthree"}, {"error", "{}"}, {"", "[DONE]"}};
  for (const std::size_t piece_bytes : {1UL, 2UL, 3UL, 1000UL}) {
    EXPECT_EQ(events_of(bytes, piece_bytes), expected) << piece_bytes;
  }
}

TEST(SseParser, RefusesWhatIsTooLong) {
  SseParser one_line(100);
  EXPECT_FALSE(one_line.push(std::string(101, 'x')));
  SseParser many_lines(100);
  std::string bytes;
  for (int i = 0; i < 30; ++i) bytes += "data: 12345\n";
  EXPECT_FALSE(many_lines.push(bytes));
}

struct Read {
  std::string text, reasoning;
  std::vector<engine::ToolCallDelta> calls;
  std::string failure;
  AnswerReader reader;
};

Read read(const std::vector<SseEvent>& events) {
  Read read;
  for (const SseEvent& event : events) {
    const auto piece = read.reader.read(event);
    if (piece.has_error()) {
      read.failure = piece.error().message;
      break;
    }
    read.text += piece->text;
    read.reasoning += piece->reasoning;
    read.calls.insert(read.calls.end(), piece->tool_calls.begin(), piece->tool_calls.end());
  }
  return read;
}

TEST(AnswerReader, JoinsDeltasAndKeepsUsageWhereverItComes) {
  const Read answer = read({
      {"", R"({"model":"big-1","choices":[{"delta":{"role":"assistant","content":""}}]})"},
      {"", R"({"choices":[],"usage":null})"},
      {"", R"({"choices":[{"delta":{"content":"Par"}}]})"},
      {"", R"({"choices":[{"delta":{"content":"is","reasoning_content":"hm"}}]})"},
      {"", R"({"choices":[{"delta":{},"finish_reason":"stop"}]})"},
      {"", R"({"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,
              "prompt_tokens_details":{"cached_tokens":3}}})"},
      {"", "[DONE]"},
      {"", "not read any more"},
  });
  EXPECT_EQ(answer.failure, "");
  EXPECT_EQ(answer.text, "Paris");
  EXPECT_TRUE(answer.reader.is_complete());
  EXPECT_TRUE(answer.reader.is_done());
  EXPECT_EQ(answer.reader.model(), "big-1");
  EXPECT_EQ(answer.reader.prompt_tokens(), 7);
  EXPECT_EQ(answer.reader.cached_prompt_tokens(), 3);
  EXPECT_EQ(answer.reader.completion_tokens(), 2);
  EXPECT_EQ(answer.reasoning, "hm");
}

TEST(AnswerReader, IsIncompleteWithoutAReason) {
  const Read answer = read({{"", R"({"choices":[{"delta":{"content":"Par"}}]})"}, {"", "[DONE]"}});
  EXPECT_EQ(answer.failure, "");
  EXPECT_FALSE(answer.reader.is_complete());
  EXPECT_EQ(answer.reader.completion_tokens(), std::nullopt);
}

TEST(AnswerReader, ReadsAWholeAnswerAndPartsOfContent) {
  EXPECT_EQ(
      read({{"", R"({"choices":[{"message":{"content":"Rome"},"finish_reason":"stop"}]})"}}).text,
      "Rome");
  EXPECT_EQ(
      read({{"", R"({"choices":[{"delta":{"content":[{"type":"text","text":"a"},{}]}}]})"}}).text,
      "a");
}

TEST(AnswerReader, SaysAnErrorThatComesWithStatus200) {
  for (const char* data : {R"({"error":{"message":"overloaded","code":502}})",
                           R"({"error":"overloaded"})", R"({"error":"overloaded","choices":[]})"}) {
    EXPECT_THAT(read({{"", data}}).failure, HasSubstr("overloaded")) << data;
  }
  EXPECT_THAT(read({{"error", R"({"message":"overloaded"})"}}).failure, HasSubstr("overloaded"));
  EXPECT_THAT(read({{"", "<html>"}}).failure, HasSubstr("not JSON"));
}

TEST(AnswerReader, BelievesNoCountAndNoName) {
  const Read answer = read({{"", R"({"model":"big\u001b[31m\nfake","usage":{
      "prompt_tokens":9223372036854775807,"completion_tokens":-1}})"},
                            {"", R"({"usage":{"prompt_tokens":3,
      "prompt_tokens_details":{"cached_tokens":7}}})"}});
  EXPECT_EQ(answer.reader.model(), "big fake");
  EXPECT_EQ(answer.reader.prompt_tokens(), 3);
  EXPECT_EQ(answer.reader.cached_prompt_tokens(), 3);
  EXPECT_EQ(answer.reader.completion_tokens(), std::nullopt);
}

TEST(AnswerReader, RefusesWhatIsTooDeepAndRepairsHalfCharacters) {
  const std::string deep = std::string(300000, '[') + std::string(300000, ']');
  EXPECT_THAT(read({{"", R"({"error":)" + deep + "}"}}).failure, HasSubstr("not JSON"));
  const std::string call = R"({"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f",
      "arguments":)" + deep +
                           R"(}}]},"finish_reason":"tool_calls"}]})";
  EXPECT_THAT(read({{"", call}}).failure, HasSubstr("not JSON"));
  std::string quoted = call;
  quoted.replace(quoted.find(deep), deep.size(), "\"" + deep + "\"");
  EXPECT_THAT(read({{"", quoted}}).failure, HasSubstr("arguments that are not JSON"));
  EXPECT_EQ(read({{"", R"({"choices":[{"delta":{"content":"a\ud83d"}}]})"}}).text, "a\ufffd");
}

TEST(AnswerReader, SurvivesEveryShape) {
  for (const char* data :
       {"null", "[]", "7", "\"x\"", "{}", R"({"choices":null})", R"({"choices":{}})",
        R"({"choices":[null]})", R"({"choices":[[]]})", R"({"choices":[{"delta":null}]})",
        R"({"choices":[{"delta":[]}]})", R"({"choices":[{"delta":{"content":7}}]})",
        R"({"usage":[]})", R"({"usage":{"prompt_tokens":-1,"completion_tokens":"x"}})",
        R"({"choices":[{"finish_reason":7}]})"}) {
    const Read answer = read({{"", data}});
    EXPECT_EQ(answer.text, "") << data;
    EXPECT_FALSE(answer.reader.is_complete()) << data;
    EXPECT_EQ(answer.reader.prompt_tokens(), std::nullopt) << data;
  }
}

// "id name arguments" a call, from deltas that each hold these tool_calls, and what was streamed.
std::vector<std::string> calls_of(const std::vector<std::string>& pieces,
                                  const std::string& reason = "tool_calls") {
  std::vector<SseEvent> events;
  for (const std::string& piece : pieces) {
    events.push_back({"", R"({"choices":[{"delta":{"tool_calls":[)" + piece + "]}}]}"});
  }
  events.push_back({"", R"({"choices":[{"delta":{},"finish_reason":")" + reason + "\"}]}"});
  Read answer = read(events);
  if (!answer.failure.empty()) return {answer.failure};
  std::vector<engine::ToolCall> streamed;
  for (const engine::ToolCallDelta& delta : answer.calls) {
    if (delta.index == streamed.size()) streamed.emplace_back();
    streamed.at(delta.index).id += delta.piece.id;
    streamed.at(delta.index).name += delta.piece.name;
    streamed.at(delta.index).arguments += delta.piece.arguments;
  }
  const auto text = [](const engine::ToolCall& call) {
    const bool is_ours = call.id.starts_with("call_") && call.id.size() == 21;
    return (is_ours ? "?" : call.id) + " " + call.name + " " + call.arguments;
  };
  std::vector<std::string> whole;
  for (const engine::ToolCall& call : answer.reader.take_tool_calls()) whole.push_back(text(call));
  EXPECT_EQ(streamed.size(), whole.size());
  for (std::size_t i = 0; i < streamed.size(); ++i) EXPECT_EQ(text(streamed[i]), whole.at(i));
  return whole;
}

TEST(ToolCalls, ArePutTogetherHoweverServersCutThem) {
  using Calls = std::vector<std::string>;
  const Calls both = {R"(a one {"x":1})", R"(b two {})"};
  EXPECT_EQ(calls_of({R"({"index":0,"id":"a","function":{"name":"one","arguments":""}})",
                      R"({"index":0,"function":{"arguments":"{\"x\":"}})",
                      R"({"index":1,"id":"b","function":{"name":"two"}})",
                      R"({"index":0,"function":{"arguments":"1}"}})"}),
            both)
      << "pieces that take turns";
  EXPECT_EQ(calls_of({R"({"id":"a","function":{"name":"one","arguments":"{\"x\":1}"}},
                         {"id":"b","function":{"name":"two","arguments":"{}"}})"}),
            both)
      << "without an index";
  EXPECT_EQ(calls_of({R"({"index":0,"id":"a","function":{"name":"one","arguments":"{\"x\":1}"}})",
                      R"({"index":0,"id":"b","function":{"name":"two","arguments":""}})"}),
            both)
      << "an index that is always 0";
  EXPECT_EQ(calls_of({R"({"index":0,"id":"a","function":{"name":"one","arguments":"{\"x\""}})",
                      R"({"index":0,"id":"a","function":{"name":"one","arguments":":1}"}})"}),
            Calls{both[0]})
      << "id and name again and again";
  EXPECT_EQ(calls_of({R"({"index":0,"id":null,"function":{"name":"o"}})",
                      R"({"index":0,"function":{"name":"ne"}})",
                      R"({"index":0,"id":"a","function":{"arguments":"{\"x\":1}"}})"}),
            Calls{both[0]})
      << "a name in pieces and an id that comes late";
  EXPECT_EQ(calls_of({R"({"function":{"name":"one","arguments":{"x":1}}})",
                      R"({"function":{"name":"two","arguments":"{}"}})"}),
            (Calls{R"(? one {"x":1})", "? two {}"}))
      << "no ids, arguments as an object";
  EXPECT_EQ(calls_of({R"({"index":0,"id":"a","function":{"name":"one","arguments":""}})",
                      R"({"index":1,"id":"b","function":{"name":"two","arguments":"{}"}})"}),
            (Calls{"a one {}", "b two {}"}))
      << "the first without arguments";
}

TEST(ToolCalls, OfAnAnswerThatStopsThereAreCalls) {
  const Read answer = read({{"", R"({"choices":[{"message":{"tool_calls":[
      {"id":"a","function":{"name":"one","arguments":"{}"}}]},"finish_reason":"stop"}]})"}});
  EXPECT_EQ(answer.reader.finish_reason(), engine::FinishReason::kToolCalls);
}

TEST(ToolCalls, AreRefusedWhenBrokenOrTooMany) {
  const std::string broken = R"({"index":0,"id":"a","function":{"name":"one","arguments":"{"}})";
  EXPECT_THAT(calls_of({broken}).at(0), HasSubstr("not JSON"));
  EXPECT_EQ(calls_of({broken}, "length").at(0), "a one {") << "cut by max_tokens";
  std::vector<std::string> many;
  for (int i = 0; i < 129; ++i) many.push_back("{\"id\":\"" + std::to_string(i) + "\"}");
  EXPECT_THAT(calls_of(many).at(0), HasSubstr("128"));
  for (const char* odd : {"null", "7", "[]", R"({"function":7})", R"({"function":{"name":7}})"}) {
    calls_of({odd});
  }
}

}  // namespace
}  // namespace engramd::server
