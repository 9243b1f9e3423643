#include "server/api/api_error.h"

#include <utility>

namespace engramd::server {
namespace {

constexpr int kRetryAfterMs = 1000;  // a place in the queue is free again, or the model loaded

}  // namespace

ApiError bad_field(std::string param, std::string message) {
  ApiError error;
  error.message = std::move(message);
  error.param = std::move(param);
  return error;
}

ApiError to_api_error(const Error& error) {
  ApiError made;
  made.message = error.message;
  switch (error.kind) {
    case ErrorKind::kInvalidArgument:
      break;
    case ErrorKind::kNotFound:
      made.status = 404;
      break;
    case ErrorKind::kLimitExceeded:  // of a chat: the prompt does not fit
      made.code = "context_length_exceeded";
      break;
    case ErrorKind::kBusy:
      made.status = 429;
      made.type = "rate_limit_error";
      made.code = "rate_limit_exceeded";
      made.retry_after_ms = kRetryAfterMs;
      break;
    case ErrorKind::kUnavailable:
    case ErrorKind::kCancelled:
      made.status = 503;
      made.type = "server_error";
      made.code = "unavailable";
      made.retry_after_ms = kRetryAfterMs;
      break;
    case ErrorKind::kRemoteFailed:
      made.status = 502;
      made.type = "server_error";
      made.code = "remote_failed";
      break;
    case ErrorKind::kEnvironment:
      made.status = 500;
      made.type = "server_error";
      break;
  }
  return made;
}

}  // namespace engramd::server
