#include "server/model_loader.h"

#include <utility>

namespace engramd::server {

ModelLoader::ModelLoader(Open open, Post post) : open_(std::move(open)), post_(std::move(post)) {}

ModelLoader::~ModelLoader() {
  if (thread_.joinable()) thread_.join();
}

void ModelLoader::start() {
  thread_ = std::thread([this] {
    // std::function wants copyable captures, and a Result that owns an engine is not.
    auto result = std::make_shared<Result<std::unique_ptr<engine::LocalEngine>>>(open_());
    post_([this, result] { loaded(std::move(*result)); });
  });
}

void ModelLoader::loaded(Result<std::unique_ptr<engine::LocalEngine>> result) {
  if (result.has_value()) {
    engine_ = std::move(result).value();
  } else {
    error_ = result.error();
  }
  for (Ready& ready : std::exchange(waiting_, {})) ready(current());
}

void ModelLoader::when_ready(Ready ready) {
  if (engine_ || error_) {
    ready(current());
  } else {
    waiting_.push_back(std::move(ready));
  }
}

Result<engine::LocalEngine*> ModelLoader::current() const {
  if (engine_) return engine_.get();
  if (error_) return *error_;
  return unavailable("the model is still loading; try again in a moment");
}

}  // namespace engramd::server
