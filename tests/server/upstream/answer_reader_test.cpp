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
  std::string text;
  std::string failure;
  AnswerReader reader;
};

Read read(const std::vector<SseEvent>& events) {
  Read read;
  for (const SseEvent& event : events) {
    auto text = read.reader.read(event);
    if (text.has_error()) {
      read.failure = text.error().message;
      break;
    }
    read.text += *text;
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
  EXPECT_EQ(answer.reader.reasoning_bytes(), 2);
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

}  // namespace
}  // namespace engramd::server
