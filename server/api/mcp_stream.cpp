#include "server/api/mcp_stream.h"

#include <utility>

namespace engramd::server {

McpStream::McpStream(std::shared_ptr<HttpExchange> exchange, std::string name, bool priming)
    : exchange_(std::move(exchange)), name_(std::move(name)), priming_(priming) {}

void McpStream::send(std::string message, bool last, int status) {
  if (done_) return;
  if (last && !events_open_ && n_events_ == 0 && exchange_) {
    done_ = true;
    return std::exchange(exchange_, nullptr)
        ->respond({status, "application/json", std::move(message), headers});
  }
  if (exchange_) open_events();
  const Event event{++n_events_, std::move(message)};
  if (exchange_) write(event);
  if (!name_.empty()) {
    kept_bytes_ += static_cast<std::int64_t>(event.data.size());
    kept_.push_back(event);
    while (kept_.size() > kKeptEventsMax || (kept_bytes_ > kKeptBytesMax && kept_.size() > 1)) {
      kept_bytes_ -= static_cast<std::int64_t>(kept_.front().data.size());
      kept_.pop_front();
    }
  }
  if (last) finish();
}

void McpStream::end() {
  if (done_) return;
  if (exchange_ && !events_open_) {
    done_ = true;
    return std::exchange(exchange_, nullptr)->respond({202, {}, {}, headers});
  }
  finish();
}

void McpStream::open_events() {
  if (!exchange_ || std::exchange(events_open_, true)) return;
  HttpResponse head{200, "text/event-stream", {}, headers};
  head.headers.emplace_back("Cache-Control", "no-cache");
  head.headers.emplace_back("X-Accel-Buffering", "no");
  // An id before anything else, so that a client that loses the connection now can come back.
  if (priming_) {
    head.body = "id: " + name_ + "-" + std::to_string(n_events_) + "\nretry: 1000\ndata: \n\n";
  }
  exchange_->start(std::move(head));
}

void McpStream::keep_alive() {
  if (exchange_ && events_open_) exchange_->write(": keep-alive\n\n");
}

void McpStream::on_gone(std::function<void()> function) {
  if (exchange_) exchange_->on_gone(std::move(function));
}

void McpStream::resume(std::shared_ptr<HttpExchange> exchange, std::uint64_t after) {
  // The client has lost the earlier connection, whether or not that shows here already.
  if (exchange_) exchange_->finish();
  exchange_ = std::move(exchange);
  events_open_ = false;
  open_events();
  for (const Event& event : kept_) {
    if (event.number > after) write(event);
  }
  if (done_) finish();
}

void McpStream::write(const Event& event) {
  std::string text;
  if (!name_.empty()) text = "id: " + name_ + "-" + std::to_string(event.number) + "\n";
  exchange_->write(text + "event: message\ndata: " + event.data + "\n\n");
}

void McpStream::finish() {
  done_ = true;
  if (exchange_) std::exchange(exchange_, nullptr)->finish();
}

}  // namespace engramd::server
