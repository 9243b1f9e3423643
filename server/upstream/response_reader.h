// ResponseReader: bytes of one HTTP/1 answer to its head and the pieces of its body, in whatever
// pieces they arrive. Bounded. Pure: no sockets, no time; one per answer.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/upstream/failure.h"

namespace engramd::server {

class ResponseReader {
 public:
  explicit ResponseReader(std::size_t body_bytes_max);
  ~ResponseReader();

  // False: this is not HTTP, or it is too long; problem() says which.
  bool push(std::string_view bytes);
  // The connection was closed. False: before the answer was whole.
  bool finish();

  bool has_head() const;
  UpstreamAnswerHead head() const;
  std::string take_body();  // what has arrived since the last call
  bool is_complete() const;
  // Whether another request may follow on this connection, for how many seconds if it was said.
  bool keeps_alive() const;
  std::optional<int> keep_alive_s() const;
  const std::string& problem() const { return problem_; }

 private:
  struct Parser;  // Beast's
  void begin();
  bool read_head();
  bool read_body();

  const std::size_t body_bytes_max_;
  std::unique_ptr<Parser> parser_;
  std::string input_;
  std::string problem_;
};

}  // namespace engramd::server
