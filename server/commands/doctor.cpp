#include "server/commands/doctor.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include <nlohmann/json.hpp>

#include "mcp/text.h"
#include "server/doctor/check.h"

namespace engramd::server {
namespace {

using nlohmann::json;

std::string text_of(const Check& check, bool colour) {
  const char* shade = check.status == CheckStatus::kPass   ? "\x1b[32m"
                      : check.status == CheckStatus::kFail ? "\x1b[31m"
                      : check.status == CheckStatus::kWarn ? "\x1b[33m"
                                                           : "\x1b[2m";
  const std::string status = name_of(check.status);
  std::string text = colour ? shade + status + "\x1b[0m" : status;
  text += std::string(12 - std::min<std::size_t>(status.size(), 11), ' ') + check.name;
  text += std::string(check.name.size() < 23 ? 24 - check.name.size() : 1, ' ');
  text += mcp::sanitise_text(check.detail) + "\n";
  if (!check.remedy.empty()) text += std::string(36, ' ') + "-> " + check.remedy + "\n";
  return text;
}

json to_json(const std::vector<Check>& checks) {
  json list = json::array();
  for (const Check& check : checks) {
    list.push_back({{"name", check.name},
                    {"status", name_of(check.status)},
                    {"detail", check.detail},
                    {"remedy", check.remedy}});
  }
  return {{"checks", std::move(list)}};
}

int run_doctor(const config::EffectiveConfig& config) {
  std::vector<Check> checks = configuration_checks(config);
  const auto add = [&checks](std::vector<Check> more) {
    std::move(more.begin(), more.end(), std::back_inserter(checks));
  };
  add(local_checks(config));
  add(remote_checks(config, remote_environment(config), has_flag(config, "--live")));
  add(client_checks(config));
  if (has_flag(config, "--json")) {
    std::printf("%s\n",
                to_json(checks).dump(2, ' ', false, json::error_handler_t::replace).c_str());
  } else {
    for (const Check& check : checks) {
      std::fputs(text_of(check, colour_wanted(config)).c_str(), stdout);
    }
  }
  const bool failed = std::any_of(checks.begin(), checks.end(), [](const Check& check) {
    return check.status == CheckStatus::kFail;
  });
  return failed ? kExitFailed : kExitOk;
}

}  // namespace

Command doctor_command() {
  return {
      .name = "doctor",
      .usage = "doctor [--live] [--json] [OPTION...]",
      .summary = "check configuration, model, table, remote and clients, with one remedy each",
      .description =
          "Each check is `pass`, `warn`, `fail` or `not checked`. It opens the model and lets it\n"
          "answer, and lists the remote's models, which costs nothing; --live also asks the "
          "remote\n"
          "for one token. Changes nothing and shows no key. Exits with 1 when a check fails.",
      .examples =
          "engramd doctor\n"
          "engramd doctor --live --json",
      .flags = {{"--live", "", "Ask the remote for one token."},
                {"--json", "", "One JSON object, for scripts."}},
      .judges_settings = true,
      .reports_problems = true,
      .run = run_doctor,
  };
}

}  // namespace engramd::server
