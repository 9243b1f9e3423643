// What the configured model really is, as the configuration's verdicts want to know it. Reads the
// model's config.json, not its weights. Any thread.
#pragma once

#include "config/effective_config.h"
#include "config/result.h"
#include "config/verdict.h"

namespace engramd::server {

Result<config::ModelFacts> read_config_facts(const config::EffectiveConfig& config);

// Prints every refusal; true when there was one.
bool print_refusals(const std::vector<config::Verdict>& verdicts);

// Logs every note and every difference between the configuration and the model, as warnings.
void log_warnings(const config::EffectiveConfig& config,
                  const std::vector<config::Verdict>& verdicts);

}  // namespace engramd::server
