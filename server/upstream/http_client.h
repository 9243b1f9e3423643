// HttpClient: HTTP requests to a remote, one at a time per calling thread, which waits. Keeps
// connections that may be used again. Verifies certificates; follows no redirects. Any thread.
// Not here: connections themselves (remote_connection), what may be asked again (upstream_client).
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
#include "server/upstream/proxy.h"
#include "server/upstream/remote_connection.h"

namespace engramd::server {

struct HttpTimeouts {
  std::chrono::milliseconds connect{10000};  // name, connection, proxy and TLS, each
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
  std::function<void(const ConnectStep&)> on_step = {};  // optional; not on a connection used again
  std::function<void()> on_sent = {};  // optional: the server may work from here on
};

class HttpClient {
 public:
  // tls: whether any endpoint needs it.
  HttpClient(bool tls, ProxySettings proxies);
  ~HttpClient();

  std::optional<UpstreamFailure> run(const HttpCall& call, const HttpEvents& events,
                                     const std::stop_token& stop);

 private:
  class Idle;
  class Exchange;

  const TlsTrust trust_;
  const ProxySettings proxies_;
  std::unique_ptr<Idle> idle_;
};

}  // namespace engramd::server
