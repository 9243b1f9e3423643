#include "server/daemon_settings.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>

#include "config/option_value.h"
#include "mcp/text.h"

namespace engramd::server {
namespace {

std::string path_in(const std::string& state_folder) {
  return state_folder + "/engramd.settings";
}

}  // namespace

DaemonSettings settings_of(const config::EffectiveConfig& config) {
  DaemonSettings settings;
  for (const config::Setting& setting : config.settings) {
    const std::string& key = setting.row->key;
    if (setting.rank == config::Rank::kDefault || key.starts_with("server.") ||
        key.starts_with("log.") || key.starts_with("limits.")) {
      continue;
    }
    settings[key] = config::to_text(setting.value);
  }
  return settings;
}

// One "key=value" a line: neither holds control characters (option_value).
Result<void> write_daemon_settings(const std::string& state_folder,
                                   const DaemonSettings& settings) {
  const std::string path = path_in(state_folder);
  std::ofstream file(path + ".new", std::ios::trunc);
  for (const auto& [key, value] : settings) file << key << '=' << value << '\n';
  file.close();
  std::error_code code;
  std::filesystem::rename(path + ".new", path, code);
  if (!file || code) return environment_error("cannot write " + path);
  return {};
}

std::vector<std::string> differing_settings(const std::string& state_folder,
                                            const DaemonSettings& own) {
  std::ifstream file(path_in(state_folder));
  if (!file) return {};
  DaemonSettings theirs;
  for (std::string line; std::getline(file, line);) {
    const std::size_t split = line.find('=');
    if (split != std::string::npos) theirs[line.substr(0, split)] = line.substr(split + 1);
  }
  std::set<std::string> keys;
  for (const auto& [key, value] : own) keys.insert(key);
  for (const auto& [key, value] : theirs) keys.insert(key);
  const auto value_in = [](const DaemonSettings& settings, const std::string& key) {
    const auto found = settings.find(key);
    return found == settings.end() ? std::string("its default") : mcp::quote(found->second);
  };
  std::vector<std::string> lines;
  for (const std::string& key : keys) {
    const std::string there = value_in(theirs, key);
    const std::string here = value_in(own, key);
    if (there != here) lines.push_back(key + " is " + there + " there and " + here + " here");
  }
  return lines;
}

}  // namespace engramd::server
