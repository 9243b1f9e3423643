#include "config/print_config.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace engramd::config {
namespace {

using nlohmann::ordered_json;

const Verdict* find_verdict(std::span<const Verdict> verdicts, const Setting& setting) {
  const auto found = std::find_if(verdicts.begin(), verdicts.end(), [&](const Verdict& verdict) {
    return verdict.key == setting.row->key;
  });
  return found == verdicts.end() ? nullptr : &*found;
}

// A path may hold a line break; a comment must not.
std::string comment(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '?');
  return "# " + text + "\n";
}

std::string setting_lines(const Setting& setting, const Verdict* verdict) {
  constexpr std::size_t kOriginColumn = 44;
  // A default is shown and not stated: who loads this text states what was stated here.
  std::string line = setting.rank == Rank::kDefault ? "#" : "";
  line += setting.row->key.substr(section_of(*setting.row).size() + 1);
  line += " = " + to_toml(setting.value);
  line.resize(std::max(line.size(), kOriginColumn), ' ');
  line += "  " + comment(setting.origin);
  if (!verdict) return line;
  const std::string differs = verdict->differs ? ", differs" : "";
  return line +
         comment("  " + std::string(name_of(verdict->kind)) + differs + ": " + verdict->note);
}

std::string key_state(const EffectiveConfig& config) {
  return config.options.api.api_key_env + (config.api_key_set ? " is set" : " is not set");
}

ordered_json to_json(const Value& value) {
  return std::visit([](const auto& item) { return ordered_json(item); }, value);
}

}  // namespace

std::string print_config(const EffectiveConfig& config, std::span<const Verdict> verdicts) {
  std::string out;
  for (const std::string& file : config.files_loaded) out += comment("read: " + file);
  for (const std::string& file : config.files_ignored) {
    out += comment("not read, no configuration file has this name: " + file);
  }
  for (const std::string& problem : config.problems) out += comment("problem: " + problem);
  for (const std::string& note : config.notes) out += comment("note: " + note);
  out += comment("the remote's key: " + key_state(config));
  std::string_view section;
  for (const Setting& setting : config.settings) {
    if (section_of(*setting.row) != section) {
      section = section_of(*setting.row);
      out += "\n[" + std::string(section) + "]\n";
    }
    out += setting_lines(setting, find_verdict(verdicts, setting));
  }
  return out;
}

std::string print_config_json(const EffectiveConfig& config, std::span<const Verdict> verdicts) {
  ordered_json options = ordered_json::array();
  for (const Setting& setting : config.settings) {
    ordered_json option = {{"key", setting.row->key},
                           {"value", to_json(setting.value)},
                           {"origin", setting.origin},
                           {"written_key", setting.written_key}};
    if (const Verdict* verdict = find_verdict(verdicts, setting)) {
      option["verdict"] = name_of(verdict->kind);
      option["differs"] = verdict->differs;
      option["note"] = verdict->note;
    }
    options.push_back(std::move(option));
  }
  const ordered_json document = {
      {"options", options},
      {"api_key", {{"variable", config.options.api.api_key_env}, {"set", config.api_key_set}}},
      {"files_loaded", config.files_loaded},
      {"files_ignored", config.files_ignored},
      {"problems", config.problems},
      {"notes", config.notes}};
  // Paths and variables may hold bytes that are not UTF-8.
  return document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace engramd::config
