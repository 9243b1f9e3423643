#include <cstdio>

#include <sys/stat.h>
#include <unistd.h>

#include "server/commands/run_tool.h"
#include "server/daemon.h"
#include "server/daemon_lock.h"
#include "server/doctor/check.h"
#include "server/model_folder.h"

namespace engramd::server {
namespace {

constexpr char kQuestion[] = "What is the capital of France?";

Check model_files_check(const config::EffectiveConfig& config) {
  Check check = {"model.files", CheckStatus::kPass, "", ""};
  const auto folder = find_model_folder(config.options.model, executable_folder());
  if (folder.has_error()) {
    return {check.name, CheckStatus::kFail, folder.error().message,
            "name a model folder with --model, or leave model.name empty for the bundled one"};
  }
  check.detail = *folder;
  if (const std::string missing = missing_model(config.options.model, *folder); !missing.empty()) {
    check.status = CheckStatus::kWarn;
    check.detail = missing;
    check.remedy = "put the model into a model folder, or ask the remote for it";
  }
  return check;
}

// The model's own answer tells more than its files do.
void answer_checks(const config::EffectiveConfig& config, std::vector<Check>& checks) {
  config::Options options = config.options;
  options.api.allow_remote = config::AllowRemote::kFalse;
  Daemon daemon(options);
  const auto result =
      run_tool(daemon, "chat", {{"prompt", kQuestion}, {"max_tokens", 8}, {"route", "local"}});
  if (result.has_error()) {
    checks.push_back({"model.answer", CheckStatus::kFail, result.error().message,
                      "repair what the message names, or choose another model with --model"});
    checks.push_back({"table.hit_rate", CheckStatus::kNotChecked, "there was no answer", ""});
    return;
  }
  const mcp::json& answer = result->structured;
  char speed[96];
  std::snprintf(
      speed, sizeof speed, ": %lld tokens, %.0f tokens/s",
      static_cast<long long>(answer.at("usage").at("completion_tokens").get<std::int64_t>()),
      answer.at("timing").at("tokens_per_s").get<double>());
  checks.push_back({"model.answer", CheckStatus::kPass,
                    answer.at("model").get<std::string>() + " answered" + speed, ""});
  const double hit_rate = answer.at("engram").at("engram_hit_rate").get<double>();
  char rate[64];
  std::snprintf(rate, sizeof rate, "%.0f %% of the looked-up rows", 100 * hit_rate);
  if (!answer.at("engram").at("enabled").get<bool>()) {
    checks.push_back({"table.hit_rate", CheckStatus::kNotChecked, "Engram is off", ""});
  } else if (hit_rate > 0) {
    checks.push_back({"table.hit_rate", CheckStatus::kPass, rate, ""});
  } else {
    checks.push_back({"table.hit_rate", CheckStatus::kWarn, rate,
                      "does the table belong to this model? `engramd table verify TABLE MODEL`"});
  }
}

Check state_check(const config::EffectiveConfig& config) {
  Check check = {"machine.state_folder", CheckStatus::kPass, config.options.table.state_folder, ""};
  struct stat status {};
  if (::stat(check.detail.c_str(), &status) != 0) {
    check.detail += " is not there yet";
    return check;
  }
  if (status.st_uid != ::geteuid() || ::access(check.detail.c_str(), W_OK) != 0) {
    check.status = CheckStatus::kFail;
    check.detail += " cannot be written by this user";
    check.remedy = "chown it to yourself";
  } else if ((status.st_mode & 077) != 0) {
    check.status = CheckStatus::kWarn;
    check.detail += " can be entered by others";
    check.remedy = "chmod 700 " + config.options.table.state_folder;
  }
  return check;
}

Check daemon_check(const config::EffectiveConfig& config) {
  const std::string& folder = config.options.table.state_folder;
  if (::access((folder + "/engramd.lock").c_str(), F_OK) != 0) {
    return {"machine.daemon", CheckStatus::kPass, "none runs; `engramd --stdio` starts one", ""};
  }
  const auto lock = DaemonLock::take(folder);
  return {"machine.daemon", CheckStatus::kPass,
          lock.has_error() ? lock.error().message : "none runs; `engramd --stdio` starts one", ""};
}

Check gpu_check() {
  return {"machine.gpu", CheckStatus::kNotChecked, "this version computes on the processor only",
          ""};
}

}  // namespace

std::vector<Check> local_checks(const config::EffectiveConfig& config) {
  std::vector<Check> checks = {model_files_check(config)};
  answer_checks(config, checks);
  checks.push_back(state_check(config));
  checks.push_back(daemon_check(config));
  checks.push_back(gpu_check());
  return checks;
}

}  // namespace engramd::server
