// DaemonSettings: what a running daemon was configured with, for processes that attach to it: a
// flag that a client's configuration gives `engramd --stdio` must not be without effect in silence.
// Lies in the state folder while the daemon runs; options hold no secrets. Not here: what options
// mean.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/effective_config.h"

namespace engramd::server {

using DaemonSettings = std::map<std::string, std::string>;  // key and value of what is no default

// Without what concerns only the process itself (server, log, limits).
DaemonSettings settings_of(const config::EffectiveConfig& config);

Result<void> write_daemon_settings(const std::string& state_folder, const DaemonSettings& settings);

// One line per key that the daemon, whose settings lie in the folder, has otherwise than `own`;
// empty when it has none or they cannot be read.
std::vector<std::string> differing_settings(const std::string& state_folder,
                                            const DaemonSettings& own);

}  // namespace engramd::server
