// RemoteEnvironment: what the process environment says about the remote. Holds secrets: it is
// passed on, never printed. A plain value.
#pragma once

#include <string>

#include "config/effective_config.h"
#include "server/upstream/proxy.h"

namespace engramd::server {

struct RemoteEnvironment {
  std::string api_key;  // of the variable that api.api_key_env names, as it stands there
  ProxySettings proxies;
};
RemoteEnvironment remote_environment(const config::EffectiveConfig& config);

}  // namespace engramd::server
