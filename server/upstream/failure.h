// UpstreamFailure: what went wrong at a remote, sorted by what may be done about it. A completion
// costs money and cannot be taken back, so the class decides whether asking again is safe. Pure.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>

#include "config/result.h"

namespace engramd::server {

enum class FailureClass {
  kSafe,       // nothing was sent, or nothing of it arrived: ask again at once, on a new connection
  kRefused,    // the server says that it did not serve (408, 409, 425, 429, 500, 503, 529): wait
  kAmbiguous,  // the prompt may have been served and paid (502, 504, 52x, cut answers): once more
  kFinal,      // asking again gives the same (400, 401, 402, 403, 404, quota, unknown model)
  kCancelled,
};

struct UpstreamFailure {
  FailureClass which = FailureClass::kFinal;
  int status = 0;       // of HTTP; 0: there was no answer
  std::string message;  // one line for the user; never holds the key
  std::optional<std::int64_t> retry_after_ms;
  bool path_may_be_wrong = false;   // a 404 that names no model
  bool is_bad_request = false;      // another model would refuse it too
  bool is_unknown_model = false;    // the endpoint is well, and has no such model
  bool counts_for_breaker = false;  // the endpoint is ill, not the request or the key
};

// Of an answer whose status is not 200, or whose body is an error all the same.
struct UpstreamAnswerHead {
  int status = 0;
  std::string content_type;
  std::string content_encoding;            // empty: none, as asked for
  std::optional<std::string> retry_after;  // seconds, or a date
  std::optional<std::string> retry_after_ms;
  std::optional<std::string> should_retry;  // x-should-retry
};
// unix_time_s: now, for a Retry-After that is a date.
UpstreamFailure failure_of(const UpstreamAnswerHead& head, std::string_view body,
                           std::int64_t unix_time_s = std::time(nullptr));
bool is_web_page(std::string_view body);  // by its first character
// Of what came over the connection, or did not: counts for the breaker unless it was cancelled.
UpstreamFailure failed_because(FailureClass which, std::string message);

// Of an event of a stream that says that it is an error, on whatever status.
UpstreamFailure failure_of_error_event(std::string_view json_text);

Error to_error(const UpstreamFailure& failure);

// What a remote said, for a message: sanitised, short, on one line.
std::string one_line(std::string_view text);
// Takes a key or password out of a text that somebody else wrote, also its first eight bytes and
// what follows of it.
void hide_secret(std::string& text, std::string_view secret);

}  // namespace engramd::server
