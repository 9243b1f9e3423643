// `engramd client-config`: the block that a client's settings need so that it launches engramd.
#pragma once

#include <string>
#include <vector>

#include "server/commands/command.h"

namespace engramd::server {

Command client_config_command();

// The settings of a client that are there, and what they say of engramd.
struct ClientSettings {
  std::string client;
  std::string path;
  std::string problem;  // the file cannot be read
  bool launches_engramd = false;
  std::string command;          // that it launches
  bool program_exists = false;  // a command without a path is looked for in PATH
};
std::vector<ClientSettings> find_client_settings(const config::EffectiveConfig& config);

}  // namespace engramd::server
