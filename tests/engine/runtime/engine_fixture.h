// The bundled model in a LocalEngine, and requests to it, for the tests of the runtime.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "engine/runtime/local_engine.h"

namespace engramd::engine::testing {

inline LocalEngineOptions bundled(const std::string& backend = "auto") {
  LocalEngineOptions options;
  options.model_folder = std::string(ENGRAMD_SOURCE_DIR) + "/install/models/engram-nano";
  options.backend = backend;
  return options;
}

inline std::unique_ptr<LocalEngine> open_engine(const LocalEngineOptions& options = bundled()) {
  auto engine = LocalEngine::open(options);
  EXPECT_TRUE(engine.has_value()) << engine.error().message;
  return std::move(*engine);
}

inline std::future<Result<ChatResult>> start(LocalEngine& engine, ChatRequest request,
                                             std::stop_token stop = {},
                                             std::function<void(const ChatDelta&)> on_delta = {}) {
  auto promise = std::make_shared<std::promise<Result<ChatResult>>>();
  ChatCallbacks callbacks;
  callbacks.on_delta = std::move(on_delta);
  callbacks.on_done = [promise](Result<ChatResult> result) {
    promise->set_value(std::move(result));
  };
  auto future = promise->get_future();
  engine.start(std::move(request), std::move(callbacks), std::move(stop));
  return future;
}

inline ChatRequest ask(const std::string& question, int max_tokens = 48) {
  ChatRequest request;
  request.messages = {{"user", question}};
  request.max_tokens = max_tokens;
  return request;
}

// Never ends by itself: end-of-sentence is biased away.
inline ChatRequest endless(int max_tokens) {
  ChatRequest request = ask("Count.", max_tokens);
  request.sampling.logit_bias = {{1, -100.0F}};
  return request;
}

}  // namespace engramd::engine::testing
