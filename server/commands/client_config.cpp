#include "server/commands/client_config.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "mcp/text.h"

namespace engramd::server {
namespace {

using Json = nlohmann::ordered_json;  // a person's file keeps its order
namespace fs = std::filesystem;

constexpr char kServerName[] = "engramd";
constexpr int kClineTimeoutS = 120;  // its own default of 60 s is short for the first answer
constexpr std::uintmax_t kSettingsBytesMax = 16 << 20;

struct Client {
  const char* name;
  const char* section;  // the member of the settings that lists servers
  const char* path;     // under the home folder, or relative to the project
  Json (*entry)(const Json& launch);
};

Json with_type(const Json& launch) {
  Json entry = {{"type", "stdio"}};
  entry.update(launch);
  return entry;
}

Json cline_entry(const Json& launch) {
  Json entry = with_type(launch);
  entry["env"] = Json::object();
  entry["timeout"] = kClineTimeoutS;
  entry["autoApprove"] = Json::array();
  entry["disabled"] = false;
  return entry;
}

Json plain_entry(const Json& launch) {
  return launch;
}

// Where each client reads its servers, as of November 2026.
constexpr std::array kClients = {
    Client{"cline", "mcpServers", "~/.cline/data/settings/cline_mcp_settings.json", cline_entry},
    Client{"claude-code", "mcpServers", "~/.claude.json", with_type},
    Client{"vscode", "servers", ".vscode/mcp.json", with_type},
    Client{"cursor", "mcpServers", "~/.cursor/mcp.json", plain_entry}};
constexpr char kClineInCode[] =
    ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";

// How a client starts this program: by its full name, because clients have a short PATH; through
// npx when npx has put it where nothing stays.
Result<Json> launch_command() {
  std::error_code code;
  const fs::path program = fs::read_symlink("/proc/self/exe", code);
  if (code) return environment_error("cannot find this program's file: " + code.message());
  if (program.string().find("/_npx/") != std::string::npos) {
    return Result<Json>(boost::system::in_place_value,
                        Json{{"command", "npx"}, {"args", {"-y", kServerName, "--stdio"}}});
  }
  return Result<Json>(boost::system::in_place_value,
                      Json{{"command", program.string()}, {"args", Json::array({"--stdio"})}});
}

Result<fs::path> settings_path(const Client& client, const config::EffectiveConfig& config) {
  const std::string given = flag_or(config, "--file", "");
  if (!given.empty()) return fs::path(given);
  const auto variable = [&](const char* name) {
    return config::find_variable(config.environment, name).value_or(std::string());
  };
  const bool is_cline = std::string_view(client.name) == "cline";
  if (is_cline && !variable("CLINE_MCP_SETTINGS_PATH").empty()) {
    return fs::path(variable("CLINE_MCP_SETTINGS_PATH"));
  }
  const std::string path = client.path;
  if (!path.starts_with("~/")) return fs::path(path);
  const std::string home = variable("HOME");
  if (home.empty()) return invalid_argument("HOME is not set: name the settings with --file");
  std::error_code code;
  const fs::path in_code = fs::path(home) / kClineInCode;
  if (is_cline && fs::exists(in_code, code)) return in_code;
  return fs::path(home) / path.substr(2);
}

// The settings that are there; an empty object when there are none.
Result<Json> read_settings(const fs::path& path) {
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

// Replaces the file in one step, with the old one kept beside it.
Result<fs::path> write_settings(const fs::path& path, const Json& settings) {
  std::error_code code;
  const fs::path backup = path.string() + ".before-engramd";
  const bool existed = fs::exists(path, code);
  if (!path.parent_path().empty()) fs::create_directories(path.parent_path(), code);
  if (existed) fs::copy_file(path, backup, fs::copy_options::overwrite_existing, code);
  if (code)
    return environment_error("cannot keep a backup in " + backup.string() + ": " + code.message());
  const fs::path fresh = path.string() + ".engramd-new";
  {
    std::ofstream file(fresh, std::ios::binary | std::ios::trunc);
    file << settings.dump(2) << '\n';
    file.flush();
    if (!file) return environment_error("cannot write " + fresh.string());
  }
  if (existed) fs::permissions(fresh, fs::status(path).permissions(), code);
  fs::rename(fresh, path, code);
  if (code) return environment_error("cannot replace " + path.string() + ": " + code.message());
  return existed ? backup : fs::path();
}

Result<void> merge(const Client& client, const fs::path& path, const Json& entry) {
  auto settings = read_settings(path);
  if (!settings) return settings.error();
  Json& section = (*settings)[client.section];
  if (section.is_null()) section = Json::object();
  if (!section.is_object()) {
    return invalid_argument(path.string() + ": " + client.section + " is not an object");
  }
  if (section.contains(kServerName) && section[kServerName] == entry) {
    std::printf("%s has it already\n", path.c_str());
    return {};
  }
  section[kServerName] = entry;
  const auto backup = write_settings(path, *settings);
  if (!backup) return backup.error();
  std::printf("wrote %s%s%s\n", path.c_str(),
              backup->empty() ? "" : "; what was there before: ", backup->c_str());
  return {};
}

int run_client_config(const config::EffectiveConfig& config) {
  std::string known;
  for (const Client& each : kClients) known += (known.empty() ? "" : ", ") + std::string(each.name);
  if (config.positional.size() != 1) {
    return fail(invalid_argument("client-config: expected one client of " + known));
  }
  const auto client = std::find_if(kClients.begin(), kClients.end(), [&](const Client& each) {
    return each.name == config.positional.front();
  });
  if (client == kClients.end()) {
    return fail(invalid_argument("client-config: expected one of " + known + ", got " +
                                 mcp::quote(config.positional.front())));
  }
  const auto launch = launch_command();
  if (!launch) return fail(launch.error());
  const Json entry = client->entry(*launch);
  const auto path = settings_path(*client, config);
  if (!path) return fail(path.error());
  if (has_flag(config, "--write")) {
    const auto merged = merge(*client, *path, entry);
    return merged.has_error() ? fail(merged.error()) : kExitOk;
  }
  const Json block = {{client->section, {{kServerName, entry}}}};
  std::printf("%s\n", block.dump(2).c_str());
  std::fprintf(stderr, "into %s; --write puts it there\n", path->c_str());
  return kExitOk;
}

bool is_program(const std::string& command, const config::EffectiveConfig& config) {
  std::error_code code;
  if (command.find('/') != std::string::npos) return fs::exists(command, code);
  std::istringstream folders(config::find_variable(config.environment, "PATH").value_or(""));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (fs::exists(fs::path(folder) / command, code)) return true;
  }
  return false;
}

}  // namespace

std::vector<ClientSettings> find_client_settings(const config::EffectiveConfig& config) {
  std::vector<ClientSettings> all;
  for (const Client& client : kClients) {
    const auto path = settings_path(client, config);
    std::error_code code;
    if (path.has_error() || !fs::exists(*path, code)) continue;
    ClientSettings& found = all.emplace_back();
    found.client = client.name;
    found.path = path->string();
    const auto settings = read_settings(*path);
    if (settings.has_error()) {
      found.problem = settings.error().message;
      continue;
    }
    const Json section = settings->value(client.section, Json::object());
    if (!section.is_object() || !section.contains(kServerName)) continue;
    const Json& entry = section[kServerName];
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

Command client_config_command() {
  return {
      .name = "client-config",
      .usage = "client-config cline|claude-code|vscode|cursor [--write] [--file FILE]",
      .summary = "the block of settings with which a client launches engramd",
      .description =
          "Prints the block for the client's settings file, with this program's full name. With\n"
          "--write it is merged into that file: other entries and their order stay, and what was\n"
          "there before is kept beside it as FILE.before-engramd.",
      .examples = "engramd client-config cline --write",
      .flags = {{"--write", "", "Merge the block into the client's settings file."},
                {"--file", "FILE", "The settings file, instead of the client's usual one."}},
      .takes_words = true,
      .run = run_client_config,
  };
}

}  // namespace engramd::server
