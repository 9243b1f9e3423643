// The HTTP APIs on the bundled model, without sockets: a request goes into the router, what a
// client would read comes out. One model for all tests; the io thread is the test's own, its clock
// stands still until the test winds it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/runtime/local_engine.h"
#include "server/api/routes.h"

namespace engramd::server {

using nlohmann::json;

class RecordedExchange final : public HttpExchange {
 public:
  explicit RecordedExchange(HttpRequest request) : request_(std::move(request)) {}

  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override {
    EXPECT_FALSE(response_) << "answered twice";
    response_ = std::move(response);
    finished = true;
  }
  void start(HttpResponse head) override {
    EXPECT_FALSE(response_) << "answered twice";
    response_ = std::move(head);
    streamed = true;
  }
  void write(std::string piece) override {
    EXPECT_TRUE(streamed && !finished);
    pieces.push_back(std::move(piece));
  }
  void finish() override { finished = true; }
  std::int64_t queued_bytes() const override { return 0; }
  void on_gone(std::function<void()> function) override { gone_ = std::move(function); }

  void leave() { gone_(); }
  const HttpResponse& response() const { return *response_; }
  bool answered() const { return response_.has_value(); }
  int status() const { return response_ ? response_->status : 0; }
  json body() const { return json::parse(response_->body); }
  std::string header(const std::string& name) const {
    for (const auto& [key, value] : response_->headers) {
      if (key == name) return value;
    }
    return "";
  }
  std::string text() const {
    std::string all;
    for (const std::string& piece : pieces) all += piece;
    return all;
  }

  bool streamed = false;
  bool finished = false;
  std::vector<std::string> pieces;

 private:
  const HttpRequest request_;
  std::optional<HttpResponse> response_;
  std::function<void()> gone_;
};

struct Event {
  std::string name;  // of the `event:` line
  std::string data;
  json value() const { return json::parse(data); }
};

// As strictly as the clients: whole events only, none without data.
inline std::vector<Event> parse_events(const std::string& text) {
  std::vector<Event> events;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = text.find("\n\n", begin);
    EXPECT_NE(end, std::string::npos) << "the last event has no blank line";
    if (end == std::string::npos) break;
    Event event;
    bool comment = false;
    for (std::size_t at = begin; at < end;) {
      const std::size_t line_end = std::min(text.find('\n', at), end);
      const std::string line = text.substr(at, line_end - at);
      if (line.starts_with("data: ")) event.data = line.substr(6);
      if (line.starts_with("event: ")) event.name = line.substr(7);
      comment = comment || line.starts_with(":");
      at = line_end + 1;
    }
    EXPECT_TRUE(comment || !event.data.empty()) << text.substr(begin, end - begin);
    if (!comment) events.push_back(std::move(event));
    begin = end + 2;
  }
  return events;
}

class ApiTest : public ::testing::Test {
 protected:
  void start_loading() { loader_.start(); }
  void load() {
    start_loading();
    bool ready = false;
    loader_.when_ready([&](Result<engine::LocalEngine*> engine) {
      EXPECT_TRUE(engine.has_value()) << (engine.has_error() ? engine.error().message : "");
      ready = true;
    });
    run_until([&] { return ready; });
  }

  std::shared_ptr<RecordedExchange> begin(const std::string& method, const std::string& path,
                                          const std::string& body = "") {
    auto exchange = std::make_shared<RecordedExchange>(HttpRequest{.id = "req_test",
                                                                   .method = method,
                                                                   .path = path,
                                                                   .query = "",
                                                                   .headers = {},
                                                                   .body = body});
    router_(exchange);
    return exchange;
  }
  // To the end of the answer.
  std::shared_ptr<RecordedExchange> send(const std::string& method, const std::string& path,
                                         const std::string& body = "") {
    const auto exchange = begin(method, path, body);
    run_until([&] { return exchange->finished; });
    return exchange;
  }
  std::shared_ptr<RecordedExchange> post(const std::string& path, const json& body) {
    return send("POST", path, body.dump());
  }

  // Runs what is posted until `done`; fails after half a minute.
  void run_until(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!done()) {
      std::function<void()> next;
      {
        std::unique_lock lock(mutex_);
        if (!posted_cv_.wait_until(lock, deadline, [this] { return !posted_.empty(); })) {
          FAIL() << "nothing more happens";
        }
        next = std::move(posted_.front());
        posted_.pop_front();
      }
      next();
    }
  }

  void advance(std::chrono::milliseconds by) {
    now_ += by;
    for (bool ran = true; ran;) {
      ran = false;
      for (std::size_t i = 0; i < timers_.size(); ++i) {
        const auto timer = timers_[i].lock();
        if (timer && timer->due > now_) continue;
        timers_.erase(timers_.begin() + static_cast<std::ptrdiff_t>(i));
        ran = true;
        if (timer) timer->function();
        break;
      }
    }
  }

  engine::LocalEngine& engine() { return *loader_.current().value(); }

  engine::LocalEngineOptions engine_options_ = [] {
    engine::LocalEngineOptions options;
    options.model_folder = std::string(ENGRAMD_SOURCE_DIR) + "/install/models/engram-nano";
    return options;
  }();
  config::EffectiveConfig config_ = [] {
    config::EffectiveConfig config;
    config.options.server.aliases = {"deepseek-chat=engram-nano", "other=somewhere-else"};
    return config;
  }();
  Metrics metrics_;

 private:
  struct Timer {
    std::chrono::milliseconds due;
    std::function<void()> function;
  };

  Post post_function() {
    return [this](std::function<void()> function) {
      const std::lock_guard lock(mutex_);
      posted_.push_back(std::move(function));
      posted_cv_.notify_one();
    };
  }
  Services make_services() {
    return {.config = config_,
            .options = config_.options,
            .loader = loader_,
            .metrics = metrics_,
            .post = post_function(),
            .table_thread = [](const std::function<void()>& function) { function(); },
            .when_chat_ready =
                [this](const Services::ChatReady& ready) {
                  loader_.when_ready([ready](Result<engine::LocalEngine*> engine) {
                    if (engine.has_error()) return ready(engine.error());
                    ready(static_cast<engine::ChatBackend*>(engine.value()));
                  });
                },
            .chat_log = [](const engine::ChatResult&) {}};
  }
  LaterHandle later(std::chrono::milliseconds delay, std::function<void()> function) {
    auto timer = std::make_shared<Timer>(Timer{now_ + delay, std::move(function)});
    timers_.push_back(timer);
    return timer;
  }

  std::mutex mutex_;  // guards posted_
  std::condition_variable posted_cv_;
  std::deque<std::function<void()>> posted_;
  std::chrono::milliseconds now_{0};
  std::vector<std::weak_ptr<Timer>> timers_;
  ModelLoader loader_{[this] { return engine::LocalEngine::open(engine_options_); },
                      post_function()};
  const Services services_ = make_services();

 protected:
  const ApiContext context_{
      services_, [this](std::chrono::milliseconds delay, std::function<void()> function) {
        return later(delay, std::move(function));
      }};
  const HttpHandler router_ = make_router(api_routes(context_));
};

}  // namespace engramd::server
