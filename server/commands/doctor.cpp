#include "server/commands/doctor.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "server/commands/run_tool.h"
#include "server/doctor/check.h"
#include "server/doctor/symptom.h"
#include "server/engine_options.h"
#include "server/model_folder.h"

namespace engramd::server {
namespace {

Result<std::unique_ptr<engine::LocalEngine>> open_engine(const config::Options& options) {
  auto folder = find_model_folder(options.model, executable_folder());
  if (folder.has_error()) return folder.error();
  return engine::LocalEngine::open(to_engine_options(options, std::move(*folder)));
}

int explain(const std::string& message) {
  const Symptom* const symptom = recognise(message);
  if (symptom == nullptr) {
    std::puts("not a message that engramd knows; `engramd doctor` looks at everything");
    return kExitFailed;
  }
  std::puts(text_of(*symptom).c_str());
  return kExitOk;
}

int run_doctor(const config::EffectiveConfig& config) {
  if (const std::string message = flag_or(config, "--explain", ""); !message.empty()) {
    return explain(message);
  }
  const auto engine = open_engine(config.options);
  Examination examination = {
      config, engine.has_error() ? Result<engine::LocalEngine*>(engine.error()) : engine->get()};
  examination.live = has_flag(config, "--live");
  const std::vector<Check> checks = examine(examination);
  const std::string text = has_flag(config, "--json") ? json_text(to_json(checks))
                                                      : text_of(checks, colour_wanted(config));
  std::fputs(text.c_str(), stdout);
  const bool failed = std::any_of(checks.begin(), checks.end(), [](const Check& check) {
    return check.status == CheckStatus::kFail;
  });
  return failed ? kExitFailed : kExitOk;
}

}  // namespace

Command doctor_command() {
  return {
      .name = "doctor",
      .usage = "doctor [--live] [--json] [OPTION...] | doctor --explain MESSAGE",
      .summary = "check configuration, model, table, remote and clients, with one remedy each",
      .description =
          "Each check is `pass`, `warn`, `fail` or `not checked`. It opens the model and lets it\n"
          "answer, and lists the remote's models, which costs nothing; --live also asks the "
          "remote\n"
          "for one token. Changes nothing and shows no key. Exits with 1 when a check fails.\n"
          "--explain says what an error message of a client or server usually means.",
      .examples =
          "engramd doctor\n"
          "engramd doctor --live --json\n"
          "engramd doctor --explain \"Cannot read properties of undefined (reading 'choices')\"",
      .flags = {{"--live", "", "Ask the remote for one token."},
                {"--json", "", "One JSON object, for scripts."},
                {"--explain", "MESSAGE", "What this error message usually means."}},
      .judges_settings = true,
      .reports_problems = true,
      .run = run_doctor,
  };
}

}  // namespace engramd::server
