// What two HTTP parsers could understand differently is refused, however it arrives.
#include "server/transport/request_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace engramd::server {
namespace {

using Step = RequestReader::Step;

config::LimitOptions small_limits() {
  config::LimitOptions limits;
  limits.http_header_bytes_max = 1024;
  limits.http_body_bytes_max = 2048;
  return limits;
}

// The status with which the first request is refused, whole and byte by byte; 0: it is read.
int refused_status(const std::string& text) {
  const auto status = [&](std::size_t piece_bytes) {
    RequestReader reader(small_limits());
    Step step = Step::kNeedMore;
    for (std::size_t at = 0; at < text.size(); at += piece_bytes) {
      reader.push(std::string_view(text).substr(at, piece_bytes));
      for (step = reader.next(); step == Step::kHead; step = reader.next()) {
      }
      if (step != Step::kNeedMore) break;
    }
    if (step == Step::kNeedMore) return -1;
    return step == Step::kRefused ? reader.refusal().status : 0;
  };
  const int whole = status(text.size());
  EXPECT_EQ(status(1), whole) << text;
  return whole;
}

std::string with_headers(const std::string& headers, const std::string& body = {}) {
  return "POST / HTTP/1.1\r\nHost: h\r\n" + headers + "\r\n" + body;
}

TEST(RequestReader, ReadsOneRequestAfterTheOther) {
  RequestReader reader(small_limits());
  reader.push(with_headers("Content-Length: 2\r\n", "ab") + "\r\nHEAD /x HTTP/1.0\r\n\r\n");
  EXPECT_EQ(reader.next(), Step::kHead);
  EXPECT_TRUE(reader.head().has_body);
  EXPECT_TRUE(reader.head().keep_alive);
  EXPECT_EQ(reader.next(), Step::kComplete);
  EXPECT_EQ(reader.take_body(), "ab");
  EXPECT_EQ(reader.next(), Step::kHead);
  EXPECT_TRUE(reader.head().is_head);
  EXPECT_TRUE(reader.head().is_http_1_0);
  EXPECT_FALSE(reader.head().keep_alive);
  EXPECT_EQ(reader.head().request.method, "GET");
  EXPECT_EQ(reader.next(), Step::kComplete);
}

TEST(RequestReader, RefusesAmbiguousLengths) {
  const std::string chunk = "1\r\nx\r\n0\r\n\r\n";
  EXPECT_EQ(refused_status(with_headers("Transfer-Encoding: chunked\r\n", chunk)), 0);
  for (const char* headers : {"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
                              "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
                              "Content-Length: 5\r\nContent-Length: 5\r\n",
                              "Content-Length: 5\r\nContent-Length: 6\r\n",
                              "Content-Length: +5\r\n",
                              "Content-Length: -1\r\n",
                              "Content-Length: 0x5\r\n",
                              "Content-Length: 99999999999999999999\r\n",
                              "Content-Length:\r\n",
                              "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
                              "Transfer-Encoding : chunked\r\n",
                              "Transfer-Encoding:\r\n chunked\r\n",
                              "X: a\r\n b\r\n",
                              "X: a\r\n\tb\r\n",
                              " X: a\r\n",
                              "X a\r\n",
                              "X: a\x01\r\n",
                              "X: a\nY: b\r\n",
                              "Host: h\r\n",
                              "\x80: a\r\n"}) {
    EXPECT_EQ(refused_status(with_headers(headers, chunk)), 400) << headers;
  }
  for (const char* encoding : {"gzip", "gzip, chunked", "chunked, gzip", "identity", "xchunked"}) {
    EXPECT_EQ(refused_status(with_headers("Transfer-Encoding: " + std::string(encoding) + "\r\n")),
              501)
        << encoding;
  }
  EXPECT_EQ(refused_status("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk), 400);
}

TEST(RequestReader, RefusesBadRequestLines) {
  const std::string rest = "\r\nHost: h\r\n\r\n";
  for (const char* line :
       {"GET  / HTTP/1.1", "G\x01T / HTTP/1.1", "GET /", "GET / http/1.1", "GET / HTTP/1.1 x",
        "(GET) / HTTP/1.1", "GET /% HTTP/1.1", "GET /%00 HTTP/1.1", "GET * HTTP/1.1",
        "CONNECT h:443 HTTP/1.1", "\x16\x03\x01\x02", "GET / HTTP/1.1\n"}) {
    EXPECT_THAT(refused_status(line + rest), testing::AnyOf(400, 505)) << line;
  }
  EXPECT_EQ(refused_status("GET / HTTP/2.0" + rest), 505);
  EXPECT_EQ(refused_status("GET / HTTP/1.1\r\n\r\n"), 400) << "no Host";
  EXPECT_EQ(refused_status("BREW / HTTP/1.1" + rest), 0) << "the handler knows the methods";
}

TEST(RequestReader, RefusesWhatIsTooLong) {
  const auto padded = [](std::size_t n_bytes) {
    const std::string start = with_headers("X: ");
    return start.substr(0, start.size() - 2) + std::string(n_bytes - start.size() - 2 + 4, 'x') +
           "\r\n\r\n";
  };
  EXPECT_EQ(refused_status(padded(1000)), 0);
  EXPECT_EQ(refused_status(padded(1200)), 431);
  EXPECT_EQ(refused_status("GET /" + std::string(4000, 'x')), 431);
  EXPECT_EQ(refused_status(with_headers("Content-Length: 2048\r\n", std::string(2048, 'x'))), 0);
  EXPECT_EQ(refused_status(with_headers("Content-Length: 2049\r\n")), 413) << "before it comes";
  EXPECT_EQ(refused_status(with_headers("Transfer-Encoding: chunked\r\n",
                                        "400\r\n" + std::string(1024, 'x') + "\r\n401\r\n")),
            413);
  EXPECT_EQ(refused_status(
                with_headers("Transfer-Encoding: chunked\r\n", "1;" + std::string(20000, 'x'))),
            400);
}

TEST(RequestReader, RefusesBadChunks) {
  for (const char* chunks : {"x\r\n", "-1\r\n", "1\r\nab\r\n0\r\n\r\n", "1 \r\nx\r\n0\r\n\r\n",
                             "fffffffffffffffff\r\n"}) {
    EXPECT_GE(refused_status(with_headers("Transfer-Encoding: chunked\r\n", chunks)), 400)
        << chunks;
  }
}

}  // namespace
}  // namespace engramd::server
