#include "server/upstream/http_client.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include <boost/asio/error.hpp>

#include "server/upstream/response_reader.h"

namespace engramd::server {
namespace {

using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kBodyBytesMax = 64UL << 20;
constexpr std::size_t kIdleMax = 8;
// Shorter than servers wait, of which the shortest are said to close after 30 s; a server that says
// how long is left a second.
constexpr seconds kIdleTime{25};
constexpr seconds kIdleMargin{1};
// For what is left of the last answer, which has arrived unless the server holds it back.
constexpr milliseconds kRestLimit{50};
// A close that crosses with a request arrives within a round trip; a later one may be the end of
// work that has begun.
constexpr milliseconds kCloseOnItsWay{1000};

bool is_close(const error_code& error) {
  return error == boost::asio::error::connection_reset || error == boost::asio::error::broken_pipe;
}

}  // namespace

// Connections between two calls, of one thread after the other. What the last answer's reader has
// not seen yet (its last chunk, after [DONE]) stays with its connection.
class HttpClient::Idle {
 public:
  struct Kept {
    std::string target;
    std::unique_ptr<RemoteConnection> connection;
    std::unique_ptr<ResponseReader> reader;
    Clock::time_point since;
  };

  void put(Kept kept) {
    const std::lock_guard lock(mutex_);
    kept_.push_back(std::move(kept));
    if (kept_.size() > kIdleMax) kept_.erase(kept_.begin());
  }

  // The one used last, or null.
  std::unique_ptr<RemoteConnection> take(const std::string& target) {
    while (true) {
      std::optional<Kept> kept = take_any(target);
      if (!kept) return nullptr;
      if (is_usable(*kept)) return std::move(kept->connection);
    }
  }

  // One was closed by the other side: the others are no better.
  void forget(const std::string& target) {
    const std::lock_guard lock(mutex_);
    std::erase_if(kept_, [&target](const Kept& kept) { return kept.target == target; });
  }

 private:
  std::optional<Kept> take_any(const std::string& target) {
    const std::lock_guard lock(mutex_);
    const auto found = std::find_if(kept_.rbegin(), kept_.rend(),
                                    [&target](const Kept& kept) { return kept.target == target; });
    if (found == kept_.rend()) return std::nullopt;
    Kept kept = std::move(*found);
    kept_.erase(std::next(found).base());
    return kept;
  }

  static bool is_usable(const Kept& kept) {
    kept.connection->set_deadline(Clock::now() + kRestLimit);
    while (!kept.reader->is_complete()) {
      const auto got = kept.connection->read(kRestLimit);
      if (got.error || !kept.reader->push(got.bytes)) return false;
    }
    const auto limit = kept.reader->keep_alive_s()
                           ? seconds(*kept.reader->keep_alive_s()) - kIdleMargin
                           : kIdleTime;
    return kept.reader->keeps_alive() && Clock::now() - kept.since < std::min(limit, kIdleTime) &&
           kept.connection->is_quiet();
  }

  std::mutex mutex_;
  std::vector<Kept> kept_;
};

// One request and its answer on one connection.
class HttpClient::Exchange {
 public:
  Exchange(const HttpCall& call, const HttpEvents& events, RemoteConnection& connection)
      : call_(call), events_(events), connection_(connection) {}

  std::optional<UpstreamFailure> run() {
    if (const error_code error = connection_.write(request())) {
      was_closed_ = is_close(error);
      return connection_.ended(FailureClass::kAmbiguous, "sending the request", error);
    }
    sent_ = Clock::now();
    if (events_.on_sent) events_.on_sent();
    return receive();
  }

  // By the server, before a single byte of its answer and so soon that it was on its way before.
  bool was_closed_already() const {
    return was_closed_ && (!sent_ || Clock::now() - *sent_ < kCloseOnItsWay);
  }
  std::unique_ptr<ResponseReader> take_reader() { return std::move(reader_); }

 private:
  std::string request() const {
    const Endpoint& endpoint = call_.endpoint;
    std::string text = call_.body.empty() ? "GET " : "POST ";
    if (connection_.speaks_to_proxy()) text += "http://" + endpoint.authority();
    text += endpoint.target(call_.path) + " HTTP/1.1\r\nHost: " + endpoint.authority() +
            "\r\nUser-Agent: engramd/" ENGRAMD_VERSION
            "\r\nAccept: application/json, text/event-stream"
            "\r\nAccept-Encoding: identity\r\n";
    if (connection_.speaks_to_proxy()) text += connection_.proxy()->authorization();
    if (!call_.key.empty()) text += "Authorization: Bearer " + call_.key + "\r\n";
    if (!call_.body.empty()) {
      text +=
          "Content-Type: application/json\r\nContent-Length: " + std::to_string(call_.body.size()) +
          "\r\n";
    }
    return text + "\r\n" + call_.body;
  }

  std::optional<UpstreamFailure> receive() {
    bool head_seen = false;
    std::size_t n_bytes = 0;
    while (true) {
      const auto got = connection_.read(head_seen ? call_.timeouts.idle : call_.timeouts.total);
      n_bytes += got.bytes.size();
      was_closed_ = n_bytes == 0 && (got.closed || is_close(got.error));
      if (got.error && !got.closed) return broken("waiting for the answer", got.error);
      if (!reader_->push(got.bytes)) {
        return failed_because(
            FailureClass::kAmbiguous,
            call_.endpoint.authority() + ": not an HTTP answer: " + reader_->problem());
      }
      const bool whole = got.closed ? reader_->finish() : reader_->is_complete();
      if (reader_->has_head() && !std::exchange(head_seen, true)) events_.on_head(reader_->head());
      if (head_seen && !events_.on_body(reader_->take_body())) return std::nullopt;
      if (whole) return std::nullopt;
      if (got.closed) return broken("the answer was not whole", got.error);
    }
  }

  // Who refuses a request before having read it breaks the connection with it: an answer all the
  // same.
  std::optional<UpstreamFailure> broken(const std::string& step, const error_code& error) const {
    UpstreamFailure failure = connection_.ended(FailureClass::kAmbiguous, step, error);
    const bool is_refusal = reader_->has_head() && reader_->head().status != 200;
    if (is_refusal && failure.which != FailureClass::kCancelled) return std::nullopt;
    return failure;
  }

  const HttpCall& call_;
  const HttpEvents& events_;
  RemoteConnection& connection_;
  std::unique_ptr<ResponseReader> reader_ = std::make_unique<ResponseReader>(kBodyBytesMax);
  std::optional<Clock::time_point> sent_;
  bool was_closed_ = false;
};

HttpClient::HttpClient(bool tls, ProxySettings proxies)
    : trust_(tls), proxies_(std::move(proxies)), idle_(std::make_unique<Idle>()) {}

HttpClient::~HttpClient() = default;

std::optional<UpstreamFailure> HttpClient::run(const HttpCall& call, const HttpEvents& events,
                                               const std::stop_token& stop) {
  const auto deadline = Clock::now() + call.timeouts.total;
  const auto proxy = proxy_for(call.endpoint, proxies_);
  if (proxy.has_error()) return failed_because(FailureClass::kFinal, proxy.error().message);
  const std::string target = call.endpoint.name();
  bool may_reuse = true;
  while (true) {
    auto connection = may_reuse ? idle_->take(target) : nullptr;
    const bool is_reused = connection != nullptr;
    if (!is_reused) connection = std::make_unique<RemoteConnection>(trust_, call.endpoint, *proxy);
    connection->set_deadline(deadline);
    Exchange exchange(call, events, *connection);
    std::optional<UpstreamFailure> failure;
    {
      const std::stop_callback on_stop(stop, [&connection] { connection->stop(); });
      if (!is_reused) failure = connection->open(call.timeouts.connect, events.on_step);
      if (!failure) failure = exchange.run();
    }
    // The server had closed it meanwhile, and so did not serve: once more, on a new connection.
    if (failure && is_reused && exchange.was_closed_already() && !stop.stop_requested()) {
      idle_->forget(target);
      may_reuse = false;
      continue;
    }
    if (!failure) idle_->put({target, std::move(connection), exchange.take_reader(), Clock::now()});
    return failure;
  }
}

}  // namespace engramd::server
