#include "server/transport/framing.h"

#include <vector>

#include <gtest/gtest.h>

namespace engramd::server {
namespace {

struct Received {
  std::string message;
  Framing framing;
  bool operator==(const Received&) const = default;
};

// `piece_bytes` at a time, so that every split of the input is seen.
std::vector<Received> read(const std::string& input, std::size_t piece_bytes,
                           std::int64_t bytes_max = 100) {
  std::vector<Received> received;
  MessageReader reader(bytes_max);
  const auto on_message = [&](std::string message, Framing framing) {
    received.push_back({std::move(message), framing});
  };
  for (std::size_t i = 0; i < input.size(); i += piece_bytes) {
    reader.push(std::string_view(input).substr(i, piece_bytes), on_message);
  }
  reader.finish(on_message);
  return received;
}

const Framing kLines = Framing::kLines;
const Framing kFramed = Framing::kContentLength;

class FramingBySplit : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Pieces, FramingBySplit, testing::Values(1, 2, 3, 7, 1000));

TEST_P(FramingBySplit, LinesWithEveryKindOfEnd) {
  EXPECT_EQ(read("\xEF\xBB\xBF{1}\r\n\r\n\n \t\n{2}\n{3}", GetParam()),
            (std::vector<Received>{{"{1}", kLines}, {"{2}", kLines}, {"{3}", kLines}}));
  EXPECT_TRUE(read("", GetParam()).empty());
  EXPECT_TRUE(read("\n\r\n", GetParam()).empty());
}

TEST_P(FramingBySplit, ContentLengthThenLines) {
  EXPECT_EQ(read("Content-Length: 4\r\n\r\n{\n1}content-length:3\r\nContent-Type: x\r\n\r\n{2}"
                 "{3}\nCONTENT-LENGTH: 0\r\n\r\n{4}\n",
                 GetParam()),
            (std::vector<Received>{
                {"{\n1}", kFramed}, {"{2}", kFramed}, {"{3}", kLines}, {"{4}", kLines}}));
}

TEST_P(FramingBySplit, BadContentLengthIsAnsweredAndSkipped) {
  for (const std::string value : {"x", "-1", "99999999999999999999", "3 4", ""}) {
    const auto received = read("Content-Length: " + value + "\r\n{1}\n", GetParam());
    ASSERT_EQ(received.size(), 2U) << value;
    EXPECT_EQ(received[0].framing, kFramed);
    EXPECT_EQ(received[1], (Received{"{1}", kLines}));
  }
}

TEST_P(FramingBySplit, OversizeIsCutAndTheNextMessageFound) {
  const std::string big(1000, 'x');
  const std::string cut(11, 'x');
  EXPECT_EQ(read(big + "\n{1}\n", GetParam(), 10),
            (std::vector<Received>{{cut, kLines}, {"{1}", kLines}}));
  // Only the framed body is cut: the reader finds its end by counting.
  EXPECT_EQ(read("content-length: 1000\n\n" + big + "{1}\n", GetParam(), 30),
            (std::vector<Received>{{std::string(31, 'x'), kFramed}, {"{1}", kLines}}));
}

TEST_P(FramingBySplit, ABodyCutShortIsStillHandedOn) {
  EXPECT_EQ(read("Content-Length: 50\r\n\r\n{1}", GetParam()),
            (std::vector<Received>{{"{1}", kFramed}}));
}

TEST(Framing, Output) {
  EXPECT_EQ(frame_message("{}", kLines), "{}\n");
  EXPECT_EQ(frame_message("{\"a\":1}", kFramed), "Content-Length: 7\r\n\r\n{\"a\":1}");
}

}  // namespace
}  // namespace engramd::server
