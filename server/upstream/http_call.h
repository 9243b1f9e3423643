// One HTTP request to a remote on a connection of its own, from the name to the last byte, on the
// calling thread, which waits. Verifies certificates against the system's; follows no redirects.
// Every step has a time limit and ends at once when the caller stops, except the look-up of a name,
// which the C library does not interrupt.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "server/upstream/endpoint.h"
#include "server/upstream/failure.h"

namespace engramd::server {

struct HttpTimeouts {
  std::chrono::milliseconds connect{10000};  // name, connection and TLS, each
  std::chrono::milliseconds idle{60000};     // between two pieces of the body
  std::chrono::milliseconds total{120000};   // of the whole call, and until the first byte
};

struct HttpCall {
  Endpoint endpoint;
  std::string path;  // "/chat/completions"
  std::string key;   // empty: none is sent
  std::string body;  // JSON; empty: GET
  HttpTimeouts timeouts;
};

struct HttpEvents {
  std::function<void(const UpstreamAnswerHead&)> on_head;
  std::function<bool(std::string_view)> on_body;  // false: enough; the call ends without a failure
};

// Certificates that are trusted: SSL_CERT_FILE, SSL_CERT_DIR, the system's. Any thread.
class TlsTrust {
 public:
  // needed: false for plain HTTP, since reading them takes a tenth of a second.
  explicit TlsTrust(bool needed);
  ~TlsTrust();
  struct Impl;
  Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

std::optional<UpstreamFailure> run_http_call(const HttpCall& call, const HttpEvents& events,
                                             const TlsTrust& trust, const std::stop_token& stop);

}  // namespace engramd::server
