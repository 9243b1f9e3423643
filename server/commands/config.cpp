#include "server/commands/config.h"

#include <cstdio>
#include <vector>

#include "config/print_config.h"
#include "config/print_reference.h"
#include "server/config_facts.h"

namespace engramd::server {
namespace {

int run_config(const config::EffectiveConfig& config) {
  if (has_flag(config, "--sample")) {
    std::fputs(config::print_sample_file().c_str(), stdout);
    return kExitOk;
  }
  const auto facts = read_config_facts(config);
  if (facts.has_error()) return fail(facts.error());
  const std::vector<config::Verdict> verdicts = config::judge(config, facts.value());
  std::fputs(has_flag(config, "--json") ? config::print_config_json(config, verdicts).c_str()
                                        : config::print_config(config, verdicts).c_str(),
             stdout);
  return print_refusals(verdicts) ? kExitUsage : kExitOk;
}

}  // namespace

Command config_command() {
  return {
      .name = "config",
      .usage = "config [--json] [OPTION...]",
      .summary = "print every effective option, where it came from and what became of it",
      .description =
          "Reads all sources (flag, environment, config.toml, the JSON files beside it, default;\n"
          "the first that states an option wins) and compares what they say with the model. The\n"
          "output is itself a config.toml. Each setting that somebody wrote gets a verdict: used,\n"
          "checked (against the model, with both numbers when they differ), reported (cannot\n"
          "apply here, with the reason) or refused.",
      .examples =
          "engramd config\n"
          "engramd config --config-dir ~/.config/engramd --json\n"
          "engramd config --sample > config.toml",
      .flags = {{"--json", "", "One JSON object, for scripts."},
                {"--sample", "", "Print a sample config.toml with every option instead."}},
      .judges_settings = true,
      .run = run_config,
  };
}

}  // namespace engramd::server
