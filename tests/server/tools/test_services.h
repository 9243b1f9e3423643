// Services for tests without a model: a backend that answers as it is told, a loader that fails,
// and an io thread that is the test's own.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "mcp/registry.h"
#include "server/tools/services.h"

namespace engramd::server {

// Answers at once, on the caller's thread.
class ScriptedBackend final : public engine::ChatBackend {
 public:
  void start(engine::ChatRequest request, engine::ChatCallbacks callbacks,
             std::stop_token stop) override {
    requests.push_back(std::move(request));
    if (callbacks.on_prefill) callbacks.on_prefill(4, 4);
    for (int i = 0; i < n_deltas; ++i) {
      engine::ChatDelta delta;
      delta.text = "x";
      delta.token.emplace();
      callbacks.on_delta(delta);
    }
    stopped = stop.stop_requested();
    callbacks.on_done(result);
  }

  std::vector<engine::ChatRequest> requests;
  int n_deltas = 3;
  bool stopped = false;
  Result<engine::ChatResult> result = engine::ChatResult{};
};

struct TestServices {
  config::EffectiveConfig config;
  config::Options& options = config.options;
  std::deque<std::function<void()>> posted;
  Metrics metrics;
  ModelLoader loader{[]() -> Result<std::unique_ptr<engine::LocalEngine>> {
                       return unavailable("no model in this test");
                     },
                     post()};
  ScriptedBackend backend;
  std::optional<Error> backend_error;

  Post post() {
    return [this](std::function<void()> function) { posted.push_back(std::move(function)); };
  }
  void run_posted() {
    while (!posted.empty()) {
      const auto function = std::move(posted.front());
      posted.pop_front();
      function();
    }
  }
  Services services() {
    return {.config = config,
            .options = options,
            .loader = loader,
            .metrics = metrics,
            .post = post(),
            .table_thread = [](const std::function<void()>& function) { function(); },
            .doctor_thread = [](const std::function<void()>& function) { function(); },
            .teach_thread = [](const std::function<void()>& function) { function(); },
            .when_chat_ready =
                [this](const Services::ChatReady& ready) {
                  if (backend_error) return ready(*backend_error);
                  ready(static_cast<engine::ChatBackend*>(&backend));
                },
            .chat_log = [](const engine::ChatResult&) {}};
  }
};

class RecordedCall final : public mcp::ToolCall {
 public:
  explicit RecordedCall(mcp::json arguments) : arguments_(std::move(arguments)) {}
  const mcp::json& arguments() const override { return arguments_; }
  std::stop_token stop_token() const override { return stop.get_token(); }
  bool wants_progress() const override { return true; }
  void progress(double done, std::optional<double>, const std::string&) override {
    progressed.push_back(done);
  }
  void finish(mcp::ToolResult given) override { result = std::move(given); }

  std::stop_source stop;
  std::vector<double> progressed;
  std::optional<mcp::ToolResult> result;

 private:
  const mcp::json arguments_;
};

}  // namespace engramd::server
