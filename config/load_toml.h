// Reads a TOML configuration file (config.toml, moe_routing.toml) by the option table.
// Pure: text in, settings and problems out; any thread. toml++ stays inside the .cpp file.
#pragma once

#include <string>
#include <string_view>

#include "config/setting.h"

namespace engramd::config {

// `path` is for messages and for relative paths; nothing is opened.
LoadedSettings load_toml(std::string_view text, const std::string& path, Rank rank);

}  // namespace engramd::config
