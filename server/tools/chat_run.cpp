#include "server/tools/chat_run.h"

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace engramd::server {
namespace {

// Written on the backend's thread only, until on_done hands it over.
struct Recording {
  std::optional<std::chrono::steady_clock::time_point> last_token;
  std::vector<double> token_intervals_ms;
  std::int64_t n_generated = 0;
};

void record_token(Recording& recording) {
  const auto now = std::chrono::steady_clock::now();
  if (recording.last_token) {
    recording.token_intervals_ms.push_back(
        std::chrono::duration<double, std::milli>(now - *recording.last_token).count());
  }
  recording.last_token = now;
  ++recording.n_generated;
}

}  // namespace

void run_chat(engine::ChatBackend& backend, engine::ChatRequest request, ChatEvents events,
              std::stop_token stop, const Services& services) {
  const Post& post = services.post;
  auto recording = std::make_shared<Recording>();
  engine::ChatCallbacks callbacks;
  if (events.on_prefill) {
    callbacks.on_prefill = [post, on_prefill = events.on_prefill](std::int64_t done,
                                                                  std::int64_t total) {
      post([on_prefill, done, total] { on_prefill(done, total); });
    };
  }
  callbacks.on_delta = [post, recording, on_text = events.on_text,
                        on_delta = events.on_delta](const engine::ChatDelta& delta) {
    if (delta.token) {
      record_token(*recording);
    } else if (!delta.text.empty()) {
      ++recording->n_generated;  // a remote's pieces, about a token each
    }
    if (on_delta) post([on_delta, delta] { on_delta(delta); });
    if (on_text)
      post([on_text, text = delta.text, n = recording->n_generated] { on_text(text, n); });
  };
  callbacks.on_done = [services, recording,
                       on_done = events.on_done](Result<engine::ChatResult> result) {
    auto shared = std::make_shared<Result<engine::ChatResult>>(std::move(result));
    services.post([services, recording, on_done, shared] {
      if (shared->has_value()) {
        services.metrics.chat_finished(shared->value(), recording->token_intervals_ms);
        services.chat_log(shared->value());
      }
      on_done(std::move(*shared));
    });
  };
  backend.start(std::move(request), std::move(callbacks), std::move(stop));
}

}  // namespace engramd::server
