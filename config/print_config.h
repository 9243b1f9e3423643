// What `engramd config` prints: every effective value, where it came from, and what became of it.
// Pure: values in, text out. Never prints the environment; of the remote's key only whether it is
// set.
#pragma once

#include <span>
#include <string>

#include "config/effective_config.h"
#include "config/verdict.h"

namespace engramd::config {

// Itself a config.toml: loading it from anywhere gives the same values and verdicts. Defaults stand
// in comments.
std::string print_config(const EffectiveConfig& config, std::span<const Verdict> verdicts);
// For scripts: one JSON object, keys in a fixed order.
std::string print_config_json(const EffectiveConfig& config, std::span<const Verdict> verdicts);

}  // namespace engramd::config
