// when_model_ready(): what the first requests after a start do: wait until the model is there, but
// not for ever. On the io thread.
#pragma once

#include <functional>
#include <string>

#include "engine/runtime/local_engine.h"
#include "server/api/api_context.h"
#include "server/api/api_error.h"

namespace engramd::server {

// `ready` gets, once: the local model, which lives as long as the daemon; a 404 when `name` is not
// a name of it; a 503 when it is still loading after a minute (try again) or could not be opened
// (do not).
void when_model_ready(const ApiContext& context, const std::string& name,
                      std::function<void(ApiResult<engine::LocalEngine*>)> ready);

}  // namespace engramd::server
