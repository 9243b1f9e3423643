#include "server/api/model_wait.h"

#include <memory>
#include <utility>

namespace engramd::server {
namespace {

// Opening a model takes seconds; a client that waited longer had better ask again.
constexpr std::chrono::milliseconds kWaitMax{60000};

ApiResult<engine::LocalEngine*> opened(const ApiContext& context, const std::string& name,
                                       const Result<engine::LocalEngine*>& engine) {
  if (engine.has_error()) {
    // Whatever kept it from being opened: not the request's fault, and it stays so.
    ApiError error = to_api_error(unavailable(engine.error().message));
    error.retry_after_ms.reset();
    return error;
  }
  const auto named = check_model_name(name, (*engine)->facts().name, context.aliases);
  if (named.has_error()) return named.error();
  return *engine;
}

struct Wait {
  std::function<void(ApiResult<engine::LocalEngine*>)> ready;  // empty: it was told
  LaterHandle limit;

  void tell(ApiResult<engine::LocalEngine*> model) {
    limit.reset();
    if (const auto told = std::exchange(ready, nullptr)) told(std::move(model));
  }
};

}  // namespace

void when_model_ready(const ApiContext& context, const std::string& name,
                      std::function<void(ApiResult<engine::LocalEngine*>)> ready) {
  const auto wait = std::make_shared<Wait>();
  wait->ready = std::move(ready);
  wait->limit = context.later(kWaitMax, [weak = std::weak_ptr(wait)] {
    const auto self = weak.lock();
    if (!self) return;
    ApiError error = to_api_error(unavailable("the model is still loading; try again in a moment"));
    error.code = "model_loading";
    self->tell(std::move(error));
  });
  context.services.loader.when_ready([context, name, wait](Result<engine::LocalEngine*> engine) {
    wait->tell(opened(context, name, engine));
  });
}

}  // namespace engramd::server
