#include "server/commands/client_settings.h"

#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "server/commands/command.h"

namespace engramd::server {
namespace {

using Json = nlohmann::ordered_json;  // a person's file keeps its order
namespace fs = std::filesystem;

constexpr std::uintmax_t kSettingsBytesMax = 16 << 20;
// Members and variables under which settings name the remote: users' own files, and what the
// clients themselves read.
constexpr const char* kKeyNames[] = {"apiKey", "TAOTOKEN_API_KEY", "ANTHROPIC_AUTH_TOKEN",
                                     "ANTHROPIC_API_KEY", "OPENAI_API_KEY"};
constexpr const char* kBaseUrlNames[] = {"baseUrl", "TAOTOKEN_BASE_URL", "ANTHROPIC_BASE_URL",
                                         "OPENAI_BASE_URL"};
constexpr const char* kModelNames[] = {"model", "ANTHROPIC_MODEL"};

std::string variable(const config::EffectiveConfig& config, const char* name) {
  return config::find_variable(config.environment, name).value_or(std::string());
}

// "~/", "%APPDATA%/" and "%USERPROFILE%/" at its start filled in; nullopt where that is not set.
std::optional<fs::path> expanded(std::string_view path, const config::EffectiveConfig& config) {
  for (const auto& [start, name] :
       {std::pair{"~/", "HOME"}, {"%APPDATA%/", "APPDATA"}, {"%USERPROFILE%/", "USERPROFILE"}}) {
    if (!path.starts_with(start)) continue;
    const std::string folder = variable(config, name);
    if (folder.empty()) return std::nullopt;
    return fs::path(folder) / path.substr(std::string_view(start).size());
  }
  return fs::path(path);
}

bool is_program(const std::string& command, const config::EffectiveConfig& config) {
  std::error_code code;
  if (command.find('/') != std::string::npos) return fs::exists(command, code);
  std::istringstream folders(variable(config, "PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (fs::exists(fs::path(folder) / command, code)) return true;
  }
  return false;
}

template <std::size_t kCount>
std::string first_text(const Json& object, const char* const (&names)[kCount]) {
  for (const char* name : names) {
    const auto found = object.find(name);
    if (found != object.end() && found->is_string()) return found->get<std::string>();
  }
  return "";
}

// Of the object itself and of its member `env`.
void add_values(const Json& object, const std::string& where, std::vector<RemoteValues>& all) {
  if (!object.is_object()) return;
  const Json env = object.value("env", Json::object());
  Json both = env.is_object() ? env : Json::object();
  both.update(object);
  RemoteValues values = {where, first_text(both, kKeyNames), first_text(both, kBaseUrlNames),
                         first_text(both, kModelNames)};
  if (!values.key.empty() || !values.base_url.empty()) all.push_back(std::move(values));
}

}  // namespace

// As of November 2026; Linux first, then macOS, then Windows.
const std::vector<Client>& all_clients() {
  static const std::vector<Client> clients = {
      {"cline",
       "mcpServers",
       {"~/.config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/"
        "cline_mcp_settings.json",
        "~/Library/Application Support/Code/User/globalStorage/saoudrizwan.claude-dev/settings/"
        "cline_mcp_settings.json",
        "%APPDATA%/Code/User/globalStorage/saoudrizwan.claude-dev/settings/"
        "cline_mcp_settings.json",
        "~/.cline/data/settings/cline_mcp_settings.json"}},
      {"claude-code", "mcpServers", {"~/.claude.json", "%USERPROFILE%/.claude.json"}},
      {"vscode", "servers", {".vscode/mcp.json"}},
      {"cursor", "mcpServers", {"~/.cursor/mcp.json", "%USERPROFILE%/.cursor/mcp.json"}}};
  return clients;
}

Result<fs::path> settings_path(const Client& client, const config::EffectiveConfig& config) {
  const std::string given = flag_or(config, "--file", "");
  if (!given.empty()) return fs::path(given);
  const bool is_cline = std::string_view(client.name) == "cline";
  const std::string named = variable(config, "CLINE_MCP_SETTINGS_PATH");
  if (is_cline && !named.empty()) return fs::path(named);
  std::optional<fs::path> usual;
  for (const char* path : client.paths) {
    const auto place = expanded(path, config);
    if (!place) continue;
    std::error_code code;
    if (fs::exists(*place, code)) return *place;
    // Cline's own folder, which every editor reads, is where a new file goes.
    if (!usual || is_cline) usual = place;
  }
  if (!usual) return invalid_argument("HOME is not set: name the settings with --file");
  return *usual;
}

// The settings that are there; an empty object when there are none.
Result<Json> read_client_settings(const fs::path& path) {
  std::error_code code;
  if (!fs::exists(path, code)) return Result<Json>(boost::system::in_place_value, Json::object());
  const std::uintmax_t n_bytes = fs::file_size(path, code);
  if (code || n_bytes > kSettingsBytesMax) {
    return environment_error("cannot read " + path.string() + " as a settings file");
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (text.str().find_first_not_of(" \t\r\n") == std::string::npos) {
    return Result<Json>(boost::system::in_place_value, Json::object());
  }
  Json settings = Json::parse(text.str(), nullptr, /*allow_exceptions=*/false);
  if (!settings.is_object()) {
    return invalid_argument(path.string() +
                            " is not a JSON object (or has comments, which would be lost): add the "
                            "block by hand");
  }
  return Result<Json>(boost::system::in_place_value, std::move(settings));
}

std::vector<ClientSettings> find_client_settings(const config::EffectiveConfig& config) {
  std::vector<ClientSettings> all;
  for (const Client& client : all_clients()) {
    const auto path = settings_path(client, config);
    std::error_code code;
    if (path.has_error() || !fs::exists(*path, code)) continue;
    ClientSettings& found = all.emplace_back();
    found.client = client.name;
    found.path = path->string();
    const auto settings = read_client_settings(*path);
    if (settings.has_error()) {
      found.problem = settings.error().message;
      continue;
    }
    const Json section = settings->value(client.section, Json::object());
    if (!section.is_object() || !section.contains(kClientServerName)) continue;
    const Json& entry = section[kClientServerName];
    found.launches_engramd = true;
    found.command = "nothing";
    for (const char* name : {"url", "command"}) {
      if (!entry.is_object() || !entry.contains(name) || !entry[name].is_string()) continue;
      found.command = entry[name].get<std::string>();
    }
    found.program_exists = found.command.starts_with("http") || is_program(found.command, config);
  }
  return all;
}

std::vector<RemoteValues> find_remote_values(const config::EffectiveConfig& config) {
  std::vector<RemoteValues> all;
  for (const char* path : {"~/.claude/settings.json", "%USERPROFILE%/.claude/settings.json"}) {
    const auto place = expanded(path, config);
    if (!place) continue;
    const auto settings = read_client_settings(*place);
    if (settings.has_value()) add_values(*settings, place->string(), all);
  }
  for (const Client& client : all_clients()) {
    const auto path = settings_path(client, config);
    if (path.has_error()) continue;
    const auto settings = read_client_settings(*path);
    if (settings.has_error()) continue;
    const Json servers = settings->value(client.section, Json::object());
    for (const auto& [name, server] : servers.items()) {
      add_values(server, path->string() + ": " + name, all);
    }
  }
  return all;
}

}  // namespace engramd::server
