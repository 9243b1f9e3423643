#include "config/effective_config.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "config/load_json.h"
#include "config/load_toml.h"

namespace engramd::config {
namespace {

namespace fs = std::filesystem;

Result<std::string> read_config_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    return not_found(path.string() + ": expected a configuration file, found none");
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(kConfigFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.is_open() || file.bad()) {
    return environment_error(path.string() + ": cannot be read; check its permissions");
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kConfigFileBytesMax) {
    return limit_exceeded(path.string() + ": larger than " + std::to_string(kConfigFileBytesMax) +
                          " bytes, which no configuration file is");
  }
  return text;
}

// Collects the settings of all sources, then merges them.
class Collector {
 public:
  explicit Collector(EffectiveConfig& config) : config_(config) {}

  void add(LoadedSettings loaded) {
    append(settings_, loaded.settings);
    append(config_.problems, loaded.problems);
    append(config_.notes, loaded.notes);
  }

  void load_file(const fs::path& path) {
    const Result<std::string> text = read_config_file(path);
    if (!text) return config_.problems.push_back(text.error().message);
    config_.files_loaded.push_back(path.string());
    if (path.extension() == ".json") return add(load_json(*text, path.string()));
    const bool beside = path.filename() == "moe_routing.toml";
    add(load_toml(*text, path.string(), beside ? Rank::kSideFile : Rank::kConfigFile));
  }

  void load_folder(const fs::path& folder) {
    for (const std::string_view name : kConfigFiles) {
      std::error_code error;
      if (fs::exists(folder / name, error)) load_file(folder / name);
    }
    list_ignored(folder);
    load_dot_env(folder / ".env");
  }

  void merge() {
    std::stable_sort(settings_.begin(), settings_.end(),
                     [](const Setting& a, const Setting& b) { return a.rank < b.rank; });
    for (const OptionRow& row : option_table()) {
      config_.settings.push_back({&row, default_value(row), Rank::kDefault, row.key, "default"});
    }
    for (const Setting& setting : settings_) {
      const auto index = static_cast<std::size_t>(setting.row - option_table().data());
      Setting& current = config_.settings[index];
      if (current.rank == setting.rank && current.value != setting.value) {
        config_.notes.push_back(setting.row->key + ": " + current.origin + " says " +
                                to_toml(current.value) + ", " + setting.origin + " says " +
                                to_toml(setting.value) + "; the later one is used");
      }
      current = setting;
    }
    for (Setting& setting : config_.settings) {
      if (setting.row->syntax == Syntax::kPath) make_absolute(setting.value);
      setting.row->member.set(config_.options, setting.value);
    }
  }

 private:
  template <class T>
  static void append(std::vector<T>& to, const std::vector<T>& from) {
    to.insert(to.end(), from.begin(), from.end());
  }

  // What `engramd config` prints may be loaded from another folder.
  static void make_absolute(Value& value) {
    const fs::path path = std::get<std::string>(value);
    std::error_code error;
    const fs::path absolute = fs::absolute(path, error);
    if (!path.empty() && !error) value = absolute.lexically_normal().string();
  }

  void list_ignored(const fs::path& folder) {
    std::error_code error;
    std::vector<std::string> ignored;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      const fs::path& path = at->path();
      if (path.extension() != ".toml" && path.extension() != ".json") continue;
      const std::string name = path.filename().string();
      if (std::find(kConfigFiles.begin(), kConfigFiles.end(), name) != kConfigFiles.end()) continue;
      ignored.push_back(path.string());
    }
    std::sort(ignored.begin(), ignored.end());
    append(config_.files_ignored, ignored);
  }

  void load_dot_env(const fs::path& path) {
    std::error_code error;
    if (!fs::exists(path, error)) return;
    const Result<std::string> text = read_config_file(path);
    if (!text) return config_.problems.push_back(text.error().message);
    config_.files_loaded.push_back(path.string());
    append(config_.problems, add_dot_env(*text, path.string(), config_.environment));
  }

  EffectiveConfig& config_;
  std::vector<Setting> settings_;
};

// Where configuration lies when nobody says otherwise (XDG base directories); may not exist.
std::optional<fs::path> default_folder(const Environment& environment) {
  const auto config_home = find_variable(environment, "XDG_CONFIG_HOME");
  if (config_home) return fs::path(*config_home) / "engramd";
  const auto home = find_variable(environment, "HOME");
  if (home) return fs::path(*home) / ".config" / "engramd";
  return std::nullopt;
}

std::string state_folder(const Environment& environment) {
  const auto state_home = find_variable(environment, "XDG_STATE_HOME");
  if (state_home) return fs::path(*state_home) / "engramd";
  const auto home = find_variable(environment, "HOME");
  return home ? std::string(fs::path(*home) / ".local" / "state" / "engramd") : std::string();
}

void load_files(const ParsedFlags& flags, Collector& collector, EffectiveConfig& config) {
  std::vector<std::string> folders = flags.values_of("--config-dir");
  const std::vector<std::string> files = flags.values_of("--config");
  const auto variable = find_variable(config.environment, "ENGRAMD_CONFIG_DIR");
  if (folders.empty() && files.empty() && variable) folders.push_back(*variable);
  for (const std::string& folder : folders) {
    std::error_code error;
    if (fs::is_directory(folder, error)) {
      collector.load_folder(folder);
    } else {
      config.problems.push_back("--config-dir " + folder + ": expected a folder, found none");
    }
  }
  for (const std::string& file : files) collector.load_file(file);
  if (!folders.empty() || !files.empty()) return;
  const std::optional<fs::path> folder = default_folder(config.environment);
  std::error_code error;
  if (folder && fs::is_directory(*folder, error)) collector.load_folder(*folder);
}

}  // namespace

std::vector<CommandFlag> source_flags() {
  return {{"--config-dir", "FOLDER",
           "Read config.toml, the JSON files and .env of this folder (default: "
           "$XDG_CONFIG_HOME/engramd or ~/.config/engramd)."},
          {"--config", "FILE", "Read this file, whatever its name; may be repeated."}};
}

EffectiveConfig load_effective_config(const ConfigRequest& request) {
  EffectiveConfig config;
  config.environment = request.environment;
  std::vector<CommandFlag> command_flags = request.command_flags;
  for (CommandFlag& flag : source_flags()) command_flags.push_back(std::move(flag));
  ParsedFlags flags = load_flags(request.arguments, command_flags);

  Collector collector(config);
  load_files(flags, collector, config);
  collector.add(load_environment(config.environment));
  collector.add(flags.loaded);
  collector.merge();
  config.arguments = request.arguments;
  config.options.table.state_folder = state_folder(config.environment);
  config.api_key_set =
      find_variable(config.environment, config.options.api.api_key_env).has_value();
  config.command_flags = std::move(flags.command_flags);
  config.positional = std::move(flags.positional);
  return config;
}

}  // namespace engramd::config
