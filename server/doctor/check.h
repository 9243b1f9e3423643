// Checks of the doctor: each finds out one thing, says what it found, and has one remedy when that
// is not as it should be. They change nothing. One file per group: configuration, local (model,
// table, machine), remote, clients. On the calling thread, which may wait.
#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "config/effective_config.h"
#include "engine/runtime/local_engine.h"

namespace engramd::server {

enum class CheckStatus { kPass, kWarn, kFail, kNotChecked };
const char* name_of(CheckStatus status);  // "pass", "warn", "fail", "not checked"

struct Check {
  std::string name;  // "remote.key"
  CheckStatus status = CheckStatus::kPass;
  std::string detail;
  std::string remedy;  // of kWarn and kFail
};
Check not_checked(std::string name, std::string why);

struct Examination {
  const config::EffectiveConfig& config;
  Result<engine::LocalEngine*> engine;  // that serves, or would
  bool live = false;                    // ask the remote for one token, which costs
  std::stop_token stop = {};
};
// All groups, in order.
std::vector<Check> examine(const Examination& examination);
// {"checks": [{"name", "status", "detail", "remedy"}]}
nlohmann::json to_json(const std::vector<Check>& checks);
// A line each, and one for a remedy.
std::string text_of(const std::vector<Check>& checks, bool colour);

std::vector<Check> configuration_checks(const config::EffectiveConfig& config);
// Lets the engine answer once.
std::vector<Check> local_checks(const Examination& examination);
// Lists the remote's models, which costs nothing.
std::vector<Check> remote_checks(const Examination& examination);
// Whether the clients whose settings are there launch engramd, and name the same remote.
std::vector<Check> client_checks(const config::EffectiveConfig& config);

}  // namespace engramd::server
