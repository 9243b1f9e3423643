#include "server/upstream/remote_environment.h"

namespace engramd::server {

RemoteEnvironment remote_environment(const config::EffectiveConfig& config) {
  const auto variable = [&config](const char* name) {
    return config::find_variable(config.environment, name).value_or(std::string());
  };
  return {variable(config.options.api.api_key_env.c_str()),
          read_proxy_settings(config.options.api.proxy_env, variable)};
}

}  // namespace engramd::server
