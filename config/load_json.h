// Reads the JSON files that users already have (engram_lookup.json, model_settings.json, the public
// demo's engram_config.json, taotoken.json). Their keys share one key space without clashes, so the
// file's name does not matter. Pure: text in, settings and problems out; any thread.
#pragma once

#include <string>
#include <string_view>

#include "config/setting.h"

namespace engramd::config {

// `path` is for messages and for relative paths; nothing is opened.
LoadedSettings load_json(std::string_view text, const std::string& path);

}  // namespace engramd::config
