// RemoteConnection: one connection to a remote, directly or through a proxy, from the look-up of
// the name to TLS. The calling thread waits; every step has a time limit and ends at once when the
// caller stops, except the look-up of a name, which the C library does not interrupt. One thread at
// a time; stop() from any. Not here: HTTP (http_client).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/system/error_code.hpp>

#include "server/upstream/endpoint.h"
#include "server/upstream/failure.h"
#include "server/upstream/proxy.h"

namespace engramd::server {

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

// A step on the way that has been made, in this order; a proxy's CONNECT comes before TLS.
struct ConnectStep {
  enum class Kind { kName, kConnection, kProxy, kTls };
  Kind kind = Kind::kName;
  std::string detail;  // "127.0.0.1", "TLSv1.3, issued by R11, 80 days left"
  std::chrono::milliseconds took{0};
};

class RemoteConnection {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // endpoint: copied. proxy: nullopt: directly.
  RemoteConnection(const TlsTrust& trust, const Endpoint& endpoint,
                   const std::optional<Proxy>& proxy);
  ~RemoteConnection();

  // Nothing that is waited for ends after it. Before each use.
  void set_deadline(Time deadline);
  void stop();

  std::optional<UpstreamFailure> open(std::chrono::milliseconds limit,
                                      const std::function<void(const ConnectStep&)>& on_step);
  boost::system::error_code write(std::string_view text);
  struct Read {
    std::string_view bytes;  // valid until the next read
    bool closed = false;     // by the other side, in order
    boost::system::error_code error;
  };
  Read read(std::chrono::milliseconds limit);

  // What `error` of a write or read comes down to.
  UpstreamFailure ended(FailureClass which, const std::string& step,
                        const boost::system::error_code& error) const;
  bool is_quiet() const;  // open, and nothing has arrived; without waiting
  // Whether a request names the whole address, since a proxy reads it.
  bool speaks_to_proxy() const;
  const std::optional<Proxy>& proxy() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace engramd::server
