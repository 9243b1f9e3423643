// Checks of `engramd doctor`: each finds out one thing, says what it found, and has one remedy when
// that is not as it should be. They change nothing. One file per group: configuration, local
// (model, table, machine), remote, clients. On the calling thread, which may wait.
#pragma once

#include <string>
#include <vector>

#include "config/effective_config.h"
#include "server/upstream/remote_environment.h"

namespace engramd::server {

enum class CheckStatus { kPass, kWarn, kFail, kNotChecked };
const char* name_of(CheckStatus status);  // "pass", "warn", "fail", "not checked"

struct Check {
  std::string name;  // "remote.key"
  CheckStatus status = CheckStatus::kPass;
  std::string detail;
  std::string remedy;  // of kWarn and kFail
};

std::vector<Check> configuration_checks(const config::EffectiveConfig& config);
// Opens the model and lets it answer once.
std::vector<Check> local_checks(const config::EffectiveConfig& config);
// Lists the remote's models, which costs nothing; with `live` asks for one token, which does.
std::vector<Check> remote_checks(const config::EffectiveConfig& config,
                                 const RemoteEnvironment& environment, bool live);
// Whether the clients whose settings are there launch engramd.
std::vector<Check> client_checks(const config::EffectiveConfig& config);

}  // namespace engramd::server
