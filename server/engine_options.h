// From the configuration to what the engine takes. Pure.
#pragma once

#include <string>

#include "config/options.h"
#include "engine/runtime/local_engine.h"

namespace engramd::server {

engine::LocalEngineOptions to_engine_options(const config::Options& options,
                                             std::string model_folder);

}  // namespace engramd::server
