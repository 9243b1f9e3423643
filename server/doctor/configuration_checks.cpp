#include "server/config_facts.h"
#include "server/doctor/check.h"

namespace engramd::server {
namespace {

std::string joined(const std::vector<std::string>& items, const char* separator) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : separator) + item;
  return text;
}

Check files_check(const config::EffectiveConfig& config) {
  Check check = {"configuration.files", CheckStatus::kPass, "", ""};
  check.detail = config.files_loaded.empty() ? "none: every option has its default"
                                             : "read " + joined(config.files_loaded, ", ");
  if (!config.problems.empty()) {
    check.status = CheckStatus::kFail;
    check.detail = joined(config.problems, "; ");
    check.remedy = "correct these lines; `engramd config --sample` shows every option";
  } else if (!config.files_ignored.empty()) {
    check.status = CheckStatus::kWarn;
    check.detail += "; not known and not read: " + joined(config.files_ignored, ", ");
    check.remedy = "rename them to a known name, or name them with --config";
  }
  return check;
}

Check settings_check(const config::EffectiveConfig& config) {
  Check check = {"configuration.settings", CheckStatus::kPass, "", ""};
  const auto facts = read_config_facts(config);
  if (facts.has_error()) {
    return not_checked(check.name, "the model cannot be read, see model.files");
  }
  const auto verdicts = config::judge(config, *facts);
  const auto refused = config::refusals(verdicts);
  std::vector<std::string> different;
  for (const config::Verdict& verdict : verdicts) {
    if (verdict.differs)
      different.push_back(verdict.key + " = " + verdict.value + ": " + verdict.note);
  }
  check.detail = std::to_string(verdicts.size()) + " settings, none at odds with the model";
  if (!refused.empty()) {
    check = {check.name, CheckStatus::kFail, joined(refused, "; "), "take these settings out"};
  } else if (!different.empty()) {
    check = {check.name, CheckStatus::kWarn, joined(different, "; "),
             "the model decides; correct the settings or choose another model"};
  }
  return check;
}

}  // namespace

std::vector<Check> configuration_checks(const config::EffectiveConfig& config) {
  return {files_check(config), settings_check(config)};
}

}  // namespace engramd::server
