// The settings files of the clients that launch engramd: where they are on Linux, macOS and Windows
// (as WSL sees it), and what they say of engramd and of the remote. Read only. Any thread. Not
// here: what should be in them (client_config), whether that is well (doctor).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "config/effective_config.h"

namespace engramd::server {

inline constexpr char kClientServerName[] = "engramd";  // its entry in them

struct Client {
  const char* name;
  const char* section;  // the member of the settings that lists servers
  std::vector<const char*> paths;
};
const std::vector<Client>& all_clients();

// Of the places where it may be the first where a file is, else the first.
Result<std::filesystem::path> settings_path(const Client& client,
                                            const config::EffectiveConfig& config);
// An empty object when there is no file; an error for what is no JSON object.
Result<nlohmann::ordered_json> read_client_settings(const std::filesystem::path& path);

// The settings of a client that are there, and what they say of engramd.
struct ClientSettings {
  std::string client;
  std::string path;
  std::string problem;  // the file cannot be read
  bool launches_engramd = false;
  std::string command;          // that it launches
  bool program_exists = false;  // a command without a path is looked for in PATH
};
std::vector<ClientSettings> find_client_settings(const config::EffectiveConfig& config);

// What a client's settings say of the remote; empty: nothing.
struct RemoteValues {
  std::string where;  // "~/.claude/settings.json", "~/.cline/...: taotoken"
  std::string key;    // a secret, never printed
  std::string base_url;
  std::string model;
};
std::vector<RemoteValues> find_remote_values(const config::EffectiveConfig& config);

}  // namespace engramd::server
