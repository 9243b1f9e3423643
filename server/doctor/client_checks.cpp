#include "server/commands/client_config.h"
#include "server/doctor/check.h"

namespace engramd::server {

std::vector<Check> client_checks(const config::EffectiveConfig& config) {
  std::vector<Check> checks;
  for (const ClientSettings& client : find_client_settings(config)) {
    Check check = {"client." + client.client, CheckStatus::kPass, client.path, ""};
    if (!client.problem.empty()) {
      check.status = CheckStatus::kWarn;
      check.detail = client.problem;
      check.remedy = "repair the file; the client cannot read it either";
    } else if (!client.launches_engramd) {
      check.status = CheckStatus::kNotChecked;
      check.detail += " does not name engramd";
    } else if (!client.program_exists) {
      check.status = CheckStatus::kFail;
      check.detail += " launches " + client.command + ", which is not there";
      check.remedy = "engramd client-config " + client.client + " --write";
    } else {
      check.detail += " launches " + client.command;
    }
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace engramd::server
