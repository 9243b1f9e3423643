// ModelLoader: opens a model on its own thread, so that the tool list is there before the model is.
// Owns the opened engine. start() and when_ready() on the io thread, `ready` runs there too.
// Not here: where the model is (model_folder), what it can do (engine/runtime/local_engine).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "config/result.h"
#include "engine/runtime/local_engine.h"
#include "server/post.h"

namespace engramd::server {

class ModelLoader {
 public:
  using Open = std::function<Result<std::unique_ptr<engine::LocalEngine>>()>;
  using Ready = std::function<void(Result<engine::LocalEngine*>)>;

  ModelLoader(Open open, Post post);
  ~ModelLoader();  // waits for the loading thread, then ends the engine

  void start();
  // At once when the model is there or has failed, else when it is. A failure stays a failure:
  // every later call gets the same error.
  void when_ready(Ready ready);
  // What is there now; kUnavailable while loading.
  Result<engine::LocalEngine*> current() const;
  bool loading() const { return !engine_ && !error_; }

 private:
  void loaded(Result<std::unique_ptr<engine::LocalEngine>> result);

  const Open open_;
  const Post post_;
  std::vector<Ready> waiting_;
  std::unique_ptr<engine::LocalEngine> engine_;
  std::optional<Error> error_;
  std::thread thread_;
};

}  // namespace engramd::server
