#include "server/commands/client_config.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "mcp/text.h"
#include "server/commands/client_settings.h"

namespace engramd::server {
namespace {

using Json = nlohmann::ordered_json;  // a person's file keeps its order
namespace fs = std::filesystem;

constexpr int kClineTimeoutS = 120;  // its own default of 60 s is short for the first answer

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

// What its entry of a client looks like.
Json entry_of(const Client& client, const Json& launch) {
  const std::string_view name = client.name;
  if (name == "cline") return cline_entry(launch);
  return name == "cursor" ? launch : with_type(launch);
}

// How a client starts this program: by its full name, because clients have a short PATH; through
// npx when npx has put it where nothing stays.
Result<Json> launch_command() {
  std::error_code code;
  const fs::path program = fs::read_symlink("/proc/self/exe", code);
  if (code) return environment_error("cannot find this program's file: " + code.message());
  if (program.string().find("/_npx/") != std::string::npos) {
    return Result<Json>(boost::system::in_place_value,
                        Json{{"command", "npx"}, {"args", {"-y", kClientServerName, "--stdio"}}});
  }
  return Result<Json>(boost::system::in_place_value,
                      Json{{"command", program.string()}, {"args", Json::array({"--stdio"})}});
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
  auto settings = read_client_settings(path);
  if (!settings) return settings.error();
  Json& section = (*settings)[client.section];
  if (section.is_null()) section = Json::object();
  if (!section.is_object()) {
    return invalid_argument(path.string() + ": " + client.section + " is not an object");
  }
  if (section.contains(kClientServerName) && section[kClientServerName] == entry) {
    std::printf("%s has it already\n", path.c_str());
    return {};
  }
  section[kClientServerName] = entry;
  const auto backup = write_settings(path, *settings);
  if (!backup) return backup.error();
  std::printf("wrote %s%s%s\n", path.c_str(),
              backup->empty() ? "" : "; what was there before: ", backup->c_str());
  return {};
}

int run_client_config(const config::EffectiveConfig& config) {
  std::string known;
  for (const Client& each : all_clients())
    known += (known.empty() ? "" : ", ") + std::string(each.name);
  if (config.positional.size() != 1) {
    return fail(invalid_argument("client-config: expected one client of " + known));
  }
  const auto client =
      std::find_if(all_clients().begin(), all_clients().end(),
                   [&](const Client& each) { return each.name == config.positional.front(); });
  if (client == all_clients().end()) {
    return fail(invalid_argument("client-config: expected one of " + known + ", got " +
                                 mcp::quote(config.positional.front())));
  }
  const auto launch = launch_command();
  if (!launch) return fail(launch.error());
  const Json entry = entry_of(*client, *launch);
  const auto path = settings_path(*client, config);
  if (!path) return fail(path.error());
  if (has_flag(config, "--write")) {
    const auto merged = merge(*client, *path, entry);
    return merged.has_error() ? fail(merged.error()) : kExitOk;
  }
  const Json block = {{client->section, {{kClientServerName, entry}}}};
  std::printf("%s\n", block.dump(2).c_str());
  std::fprintf(stderr, "into %s; --write puts it there\n", path->c_str());
  return kExitOk;
}

}  // namespace

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
