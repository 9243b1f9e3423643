#include "server/upstream/http_call.h"

#include <array>
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

#include "server/upstream/response_reader.h"

namespace engramd::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kReadBytes = 16384;
constexpr std::size_t kBodyBytesMax = 64UL << 20;

class Call {
 public:
  Call(const HttpCall& call, const HttpEvents& events, asio::ssl::context& tls,
       const std::stop_token& stop)
      : call_(call),
        events_(events),
        stop_(stop),
        deadline_(Clock::now() + call.timeouts.total),
        resolver_(io_),
        timer_(io_),
        stream_(io_, tls) {}

  std::optional<UpstreamFailure> run() {
    const std::stop_callback on_stop(stop_, [this] { asio::post(io_, [this] { abort(); }); });
    if (auto problem = connect()) return problem;
    if (call_.endpoint.tls) {
      if (auto problem = shake_hands()) return problem;
    }
    if (auto problem = send()) return problem;
    return receive();
  }

 private:
  void abort() {
    resolver_.cancel();
    error_code ignored;
    stream_.next_layer().close(ignored);
  }

  // Starts one operation and runs until it has ended, which a limit or the caller may hasten.
  template <class Start>
  error_code wait(milliseconds limit, Start start) {
    if (stop_.stop_requested()) return asio::error::operation_aborted;
    timed_out_ = false;
    error_code outcome;
    timer_.expires_at(std::min(Clock::now() + limit, deadline_));
    timer_.async_wait([this](const error_code& error) {
      if (error) return;
      timed_out_ = true;
      abort();
    });
    start([this, &outcome](const error_code& error, auto&&...) {
      outcome = error;
      timer_.cancel();
    });
    io_.restart();
    io_.run();
    return outcome;
  }

  UpstreamFailure ended(FailureClass which, const std::string& step, const error_code& error) {
    if (stop_.stop_requested()) return failed_because(FailureClass::kCancelled, "cancelled");
    const std::string where = call_.endpoint.authority();
    if (timed_out_) return failed_because(which, where + ": time-out while " + step);
    return failed_because(which, where + ": " + error.message() + " while " + step);
  }

  std::optional<UpstreamFailure> connect() {
    tcp::resolver::results_type found;
    error_code error = wait(call_.timeouts.connect, [&](auto done) {
      resolver_.async_resolve(call_.endpoint.host, call_.endpoint.port,
                              [done, &found](const error_code& e, auto results) {
                                found = std::move(results);
                                done(e);
                              });
    });
    if (error) return ended(FailureClass::kSafe, "looking up the name", error);
    error = wait(call_.timeouts.connect, [&](auto done) {
      asio::async_connect(stream_.next_layer(), found, std::move(done));
    });
    if (error) return ended(FailureClass::kSafe, "connecting", error);
    stream_.next_layer().set_option(tcp::no_delay(true), error);
    return std::nullopt;
  }

  std::optional<UpstreamFailure> shake_hands() {
    SSL* const ssl = stream_.native_handle();
    const char* const host = call_.endpoint.host.c_str();
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) != 1) {  // it is a name
      SSL_set1_host(ssl, host);
      SSL_set_tlsext_host_name(ssl, host);
    }
    const error_code error = wait(call_.timeouts.connect, [&](auto done) {
      stream_.async_handshake(asio::ssl::stream_base::client, std::move(done));
    });
    if (!error) return std::nullopt;
    const long verdict = SSL_get_verify_result(ssl);
    if (verdict == X509_V_OK || timed_out_ || stop_.stop_requested()) {
      return ended(FailureClass::kSafe, "agreeing on TLS", error);
    }
    return failed_because(FailureClass::kFinal, call_.endpoint.authority() +
                                                    ": its certificate is not trusted: " +
                                                    X509_verify_cert_error_string(verdict));
  }

  std::string request() const {
    std::string text = (call_.body.empty() ? "GET " : "POST ") + call_.endpoint.target(call_.path) +
                       " HTTP/1.1\r\nHost: " + call_.endpoint.authority() +
                       "\r\nUser-Agent: engramd/" ENGRAMD_VERSION
                       "\r\nAccept: application/json, text/event-stream"
                       "\r\nAccept-Encoding: identity\r\nConnection: close\r\n";
    if (!call_.key.empty()) text += "Authorization: Bearer " + call_.key + "\r\n";
    if (!call_.body.empty()) {
      text +=
          "Content-Type: application/json\r\nContent-Length: " + std::to_string(call_.body.size()) +
          "\r\n";
    }
    return text + "\r\n" + call_.body;
  }

  template <class Function>
  void with_stream(Function function) {
    call_.endpoint.tls ? function(stream_) : function(stream_.next_layer());
  }

  std::optional<UpstreamFailure> send() {
    const std::string text = request();
    const error_code error = wait(call_.timeouts.total, [&](auto done) {
      with_stream([&](auto& stream) { asio::async_write(stream, asio::buffer(text), done); });
    });
    if (error) return ended(FailureClass::kAmbiguous, "sending the request", error);
    return std::nullopt;
  }

  std::optional<UpstreamFailure> receive() {
    ResponseReader reader(kBodyBytesMax);
    bool head_seen = false;
    std::array<char, kReadBytes> buffer;
    while (true) {
      std::size_t n_read = 0;
      const milliseconds limit = head_seen ? call_.timeouts.idle : call_.timeouts.total;
      const error_code error = wait(limit, [&](auto done) {
        with_stream([&](auto& stream) {
          stream.async_read_some(asio::buffer(buffer),
                                 [done, &n_read](const error_code& e, std::size_t n) {
                                   n_read = n;
                                   done(e);
                                 });
        });
      });
      const bool closed = error == asio::error::eof || error == asio::ssl::error::stream_truncated;
      if (error && !closed) return ended(FailureClass::kAmbiguous, "waiting for the answer", error);
      if (!reader.push({buffer.data(), n_read})) {
        return failed_because(
            FailureClass::kAmbiguous,
            call_.endpoint.authority() + ": not an HTTP answer: " + reader.problem());
      }
      const bool whole = closed ? reader.finish() : reader.is_complete();
      if (reader.has_head() && !std::exchange(head_seen, true)) events_.on_head(reader.head());
      if (head_seen && !events_.on_body(reader.take_body())) return std::nullopt;
      if (whole) return std::nullopt;
      if (closed) return ended(FailureClass::kAmbiguous, "the answer was not whole", error);
    }
  }

  const HttpCall& call_;
  const HttpEvents& events_;
  const std::stop_token& stop_;
  const Clock::time_point deadline_;
  asio::io_context io_{1};
  tcp::resolver resolver_;
  asio::steady_timer timer_;
  asio::ssl::stream<tcp::socket> stream_;
  bool timed_out_ = false;
};

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

std::optional<UpstreamFailure> run_http_call(const HttpCall& call, const HttpEvents& events,
                                             const TlsTrust& trust, const std::stop_token& stop) {
  return Call(call, events, trust.impl().context, stop).run();
}

}  // namespace engramd::server
