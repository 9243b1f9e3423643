// Result<T>: a value, or an Error that says what was wrong, what was expected and what to do.
// For expected failures only; programmer errors assert. Thread-safe in the way values are.
// Not for device code: nvcc never parses Boost.
#pragma once

#include <string>
#include <utility>

#include <boost/system/result.hpp>

#include "config/assert.h"

namespace engramd {

// What the edge (HTTP status, MCP error, exit code) needs to know about a failure.
enum class ErrorKind {
  kInvalidArgument,  // the caller's input is wrong: 4xx, MCP tool error
  kNotFound,         // a named thing does not exist
  kLimitExceeded,    // a configured limit was reached; the message names the option
  kBusy,             // a queue is full: the same request may succeed in a moment
  kUnavailable,      // cannot be done now or on this machine (loading, no device, no remote)
  kRemoteFailed,     // a remote refused or broke off: asking again is useless, or costs again
  kCancelled,        // the caller asked to stop
  kEnvironment,      // file system or operating system said no
};

struct Error {
  ErrorKind kind = ErrorKind::kInvalidArgument;
  std::string message;  // what, expected, got, remedy; one line; no secrets
};

// Called by Result<T>::value() without a value; the house style tests has_value() first.
[[noreturn]] inline void throw_exception_from_error(const Error& error,
                                                    const boost::source_location& location) {
  assertion_failed(error.message.c_str(), location.file_name(), static_cast<int>(location.line()));
}

template <class T>
using Result = boost::system::result<T, Error>;

inline Error invalid_argument(std::string message) {
  return {ErrorKind::kInvalidArgument, std::move(message)};
}
inline Error not_found(std::string message) {
  return {ErrorKind::kNotFound, std::move(message)};
}
inline Error limit_exceeded(std::string message) {
  return {ErrorKind::kLimitExceeded, std::move(message)};
}
inline Error busy(std::string message) {
  return {ErrorKind::kBusy, std::move(message)};
}
inline Error unavailable(std::string message) {
  return {ErrorKind::kUnavailable, std::move(message)};
}
inline Error remote_failed(std::string message) {
  return {ErrorKind::kRemoteFailed, std::move(message)};
}
inline Error cancelled(std::string message) {
  return {ErrorKind::kCancelled, std::move(message)};
}
inline Error environment_error(std::string message) {
  return {ErrorKind::kEnvironment, std::move(message)};
}

}  // namespace engramd
