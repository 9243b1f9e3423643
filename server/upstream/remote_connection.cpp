#include "server/upstream/remote_connection.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include "server/upstream/response_reader.h"

namespace engramd::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kReadBytes = 16384;
constexpr std::chrono::hours kNoLimit{24};         // but the deadline
constexpr std::size_t kProxyBodyBytesMax = 65536;  // of a refusal, which nobody reads

UpstreamFailure proxy_refusal(const std::string& proxy, int status) {
  const bool wants_password = status == 407 || status == 401;  // tinyproxy says 401
  const bool forbids = status == 403 || status == 405;
  const auto which = wants_password || forbids ? FailureClass::kFinal : FailureClass::kSafe;
  UpstreamFailure failure =
      failed_because(which, proxy +
                                (wants_password ? " wants a name and a password: HTTP "
                                 : forbids      ? " does not let this through: HTTP "
                                                : " cannot reach the remote: HTTP ") +
                                std::to_string(status));
  failure.status = status;
  return failure;
}

// "TLSv1.3, issued by R11, 80 days left"
std::string certificate_of(SSL* ssl) {
  std::string text = SSL_get_version(ssl);
  X509* const certificate = SSL_get0_peer_certificate(ssl);
  if (certificate == nullptr) return text;
  std::array<char, 128> issuer{};
  X509_NAME* const name = X509_get_issuer_name(certificate);
  if (X509_NAME_get_text_by_NID(name, NID_commonName, issuer.data(), issuer.size()) > 0) {
    text += std::string(", issued by ") + issuer.data();
  }
  int days = 0;
  int seconds = 0;
  if (ASN1_TIME_diff(&days, &seconds, nullptr, X509_get0_notAfter(certificate)) == 1) {
    text += ", " + std::to_string(days) + " days left";
  }
  return text;
}

}  // namespace

struct TlsTrust::Impl {
  asio::ssl::context context{asio::ssl::context::tls_client};
};

TlsTrust::TlsTrust(bool needed) : impl_(std::make_unique<Impl>()) {
  if (!needed) return;
  error_code ignored;
  // The variables, and where Debian's OpenSSL keeps them; then where other systems do, since the
  // library that is linked into this program knows of its own place only.
  impl_->context.set_default_verify_paths(ignored);
  for (const char* file : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
    impl_->context.load_verify_file(file, ignored);
    if (!ignored) break;
  }
  ERR_clear_error();
  impl_->context.set_verify_mode(asio::ssl::verify_peer);
  SSL_CTX_set_min_proto_version(impl_->context.native_handle(), TLS1_2_VERSION);
}

TlsTrust::~TlsTrust() = default;

struct RemoteConnection::Impl {
  Impl(const TlsTrust& trust, const Endpoint& to, const std::optional<Proxy>& through)
      : endpoint(to), proxy(through), stream(io, trust.impl().context) {}

  tcp::socket& socket() { return stream.next_layer(); }

  void abort() {
    resolver.cancel();
    error_code ignored;
    socket().close(ignored);
  }

  // Starts one operation and runs until it has ended, which a limit or the caller may hasten.
  template <class Start>
  error_code wait(milliseconds limit, Start start) {
    if (stopped) return asio::error::operation_aborted;
    timed_out = false;
    error_code outcome;
    timer.expires_at(std::min(Clock::now() + limit, deadline));
    timer.async_wait([this](const error_code& error) {
      if (error) return;
      timed_out = true;
      abort();
    });
    start([this, &outcome](const error_code& error, auto&&...) {
      outcome = error;
      timer.cancel();
    });
    io.restart();
    io.run();
    return outcome;
  }

  template <class Function>
  void with_stream(Function function) {
    encrypted ? function(stream) : function(socket());
  }

  error_code write(std::string_view text) {
    return wait(kNoLimit, [&](auto done) {
      with_stream([&](auto& open_stream) {
        asio::async_write(open_stream, asio::buffer(text), std::move(done));
      });
    });
  }

  error_code read(milliseconds limit, std::size_t& n_read) {
    return wait(limit, [&](auto done) {
      with_stream([&](auto& open_stream) {
        open_stream.async_read_some(asio::buffer(buffer),
                                    [done, &n_read](const error_code& error, std::size_t n) {
                                      n_read = n;
                                      done(error);
                                    });
      });
    });
  }

  UpstreamFailure ended(FailureClass which, const std::string& who, const std::string& step,
                        const error_code& error) const {
    if (stopped) return failed_because(FailureClass::kCancelled, "cancelled");
    return failed_because(
        which, who + (timed_out ? ": time-out while " : ": " + error.message() + " while ") + step);
  }

  std::string first_stop() const {
    return proxy ? "the proxy " + proxy->authority() : endpoint.authority();
  }

  std::optional<UpstreamFailure> look_up(milliseconds limit, tcp::resolver::results_type& found) {
    const error_code error = wait(limit, [&](auto done) {
      resolver.async_resolve(proxy ? proxy->host : endpoint.host,
                             proxy ? proxy->port : endpoint.port,
                             [done, &found](const error_code& e, auto results) {
                               found = std::move(results);
                               done(e);
                             });
    });
    if (!error) return std::nullopt;
    return ended(FailureClass::kSafe, first_stop(), "looking up the name", error);
  }

  std::optional<UpstreamFailure> connect(milliseconds limit,
                                         const tcp::resolver::results_type& found) {
    error_code error =
        wait(limit, [&](auto done) { asio::async_connect(socket(), found, std::move(done)); });
    if (error) return ended(FailureClass::kSafe, first_stop(), "connecting", error);
    socket().set_option(tcp::no_delay(true), error);
    return std::nullopt;
  }

  // Asks the proxy to pass on what follows, whose answer is a head without a body when it does.
  std::optional<UpstreamFailure> tunnel(milliseconds limit) {
    const std::string to = endpoint.full_authority();
    std::string text = "CONNECT " + to + " HTTP/1.1\r\nHost: " + to + "\r\n";
    text += proxy->authorization();
    error_code error = write(text + "\r\n");
    ResponseReader reader(kProxyBodyBytesMax);
    while (!error && !reader.has_head()) {
      std::size_t n_read = 0;
      error = read(limit, n_read);
      if (!error && !reader.push({buffer.data(), n_read})) {
        return failed_because(FailureClass::kSafe,
                              first_stop() + ": not an HTTP answer: " + reader.problem());
      }
    }
    if (error) return ended(FailureClass::kSafe, first_stop(), "asking it for " + to, error);
    const int status = reader.head().status;
    if (status / 100 == 2) return std::nullopt;
    return proxy_refusal(first_stop(), status);
  }

  std::optional<UpstreamFailure> shake_hands(milliseconds limit) {
    SSL* const ssl = stream.native_handle();
    const char* const host = endpoint.host.c_str();
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) != 1) {  // it is a name
      SSL_set1_host(ssl, host);
      SSL_set_tlsext_host_name(ssl, host);
    }
    const error_code error = wait(limit, [&](auto done) {
      stream.async_handshake(asio::ssl::stream_base::client, std::move(done));
    });
    if (!error) {
      encrypted = true;
      return std::nullopt;
    }
    const long verdict = SSL_get_verify_result(ssl);
    if (verdict == X509_V_OK || timed_out || stopped) {
      return ended(FailureClass::kSafe, endpoint.authority(), "agreeing on TLS", error);
    }
    return failed_because(FailureClass::kFinal, endpoint.authority() +
                                                    ": its certificate is not trusted: " +
                                                    X509_verify_cert_error_string(verdict));
  }

  const Endpoint endpoint;
  const std::optional<Proxy> proxy;
  asio::io_context io{1};
  tcp::resolver resolver{io};
  asio::steady_timer timer{io};
  asio::ssl::stream<tcp::socket> stream;
  std::array<char, kReadBytes> buffer;
  Clock::time_point deadline = Clock::time_point::max();
  bool encrypted = false;
  bool timed_out = false;
  std::atomic<bool> stopped = false;
};

RemoteConnection::RemoteConnection(const TlsTrust& trust, const Endpoint& endpoint,
                                   const std::optional<Proxy>& proxy)
    : impl_(std::make_unique<Impl>(trust, endpoint, proxy)) {}

RemoteConnection::~RemoteConnection() = default;

void RemoteConnection::set_deadline(Time deadline) {
  impl_->deadline = deadline;
}

void RemoteConnection::stop() {
  impl_->stopped = true;
  asio::post(impl_->io, [impl = impl_.get()] { impl->abort(); });
}

std::optional<UpstreamFailure> RemoteConnection::open(
    milliseconds limit, const std::function<void(const ConnectStep&)>& on_step) {
  auto started = Clock::now();
  const auto report = [&](ConnectStep::Kind kind, std::string detail) {
    const auto now = Clock::now();
    if (on_step) {
      on_step({kind, std::move(detail), std::chrono::duration_cast<milliseconds>(now - started)});
    }
    started = now;
  };
  tcp::resolver::results_type found;
  if (auto problem = impl_->look_up(limit, found)) return problem;
  report(ConnectStep::Kind::kName, found.begin()->endpoint().address().to_string());
  if (auto problem = impl_->connect(limit, found)) return problem;
  error_code ignored;
  report(ConnectStep::Kind::kConnection,
         impl_->socket().remote_endpoint(ignored).address().to_string());
  if (impl_->proxy && impl_->endpoint.tls) {
    if (auto problem = impl_->tunnel(limit)) return problem;
  }
  if (impl_->proxy) report(ConnectStep::Kind::kProxy, impl_->proxy->authority());
  if (!impl_->endpoint.tls) return std::nullopt;
  if (auto problem = impl_->shake_hands(limit)) return problem;
  report(ConnectStep::Kind::kTls, certificate_of(impl_->stream.native_handle()));
  return std::nullopt;
}

error_code RemoteConnection::write(std::string_view text) {
  return impl_->write(text);
}

RemoteConnection::Read RemoteConnection::read(milliseconds limit) {
  std::size_t n_read = 0;
  Read got;
  got.error = impl_->read(limit, n_read);
  got.bytes = {impl_->buffer.data(), n_read};
  got.closed = got.error == asio::error::eof || got.error == asio::ssl::error::stream_truncated;
  return got;
}

UpstreamFailure RemoteConnection::ended(FailureClass which, const std::string& step,
                                        const error_code& error) const {
  return impl_->ended(which, speaks_to_proxy() ? impl_->first_stop() : impl_->endpoint.authority(),
                      step, error);
}

bool RemoteConnection::is_quiet() const {
  if (impl_->stopped) return false;
  char byte = 0;
  const auto n_read = ::recv(impl_->socket().native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n_read < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
}

bool RemoteConnection::speaks_to_proxy() const {
  return impl_->proxy && !impl_->endpoint.tls;
}

const std::optional<Proxy>& RemoteConnection::proxy() const {
  return impl_->proxy;
}

}  // namespace engramd::server
