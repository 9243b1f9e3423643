#include "server/model_folder.h"

#include <filesystem>
#include <sstream>
#include <system_error>
#include <vector>

namespace engramd::server {
namespace {

namespace fs = std::filesystem;

constexpr char kBundledModel[] = "engram-nano";

bool is_model(const fs::path& folder) {
  std::error_code error;  // an unreadable folder is no model
  return fs::is_regular_file(folder / "config.json", error);
}

bool is_path(const std::string& name) {
  return name.find('/') != std::string::npos || name == "." || name == "..";
}

std::vector<fs::path> model_folders(const std::string& search_path, const fs::path& program) {
  std::vector<fs::path> folders;
  std::istringstream parts(search_path);
  for (std::string part; std::getline(parts, part, ':');) {
    if (!part.empty()) folders.emplace_back(part);
  }
  folders.push_back(program / ".." / "share" / "engramd" / "models");
  folders.emplace_back(ENGRAMD_SOURCE_MODELS);
  return folders;
}

}  // namespace

std::string executable_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path().string();
}

Result<std::string> find_model_folder(const config::ModelOptions& options,
                                      const std::string& program_folder) {
  std::string name = options.name.empty() ? kBundledModel : options.name;
  if (is_path(name)) {
    while (name.size() > 1 && name.back() == '/') name.pop_back();
    if (is_model(name)) return name;
    return not_found("model " + name + ": expected a folder with config.json, found none");
  }
  const auto folders = model_folders(options.search_path, program_folder);
  for (const std::string& wanted : {name, std::string(kBundledModel)}) {
    for (const fs::path& folder : folders) {
      if (is_model(folder / wanted)) return (folder / wanted).lexically_normal().string();
    }
  }
  std::string looked_in;
  for (const fs::path& folder : folders) {
    looked_in += (looked_in.empty() ? "" : ", ") + (folder / name).lexically_normal().string();
  }
  return not_found("model " + name + ": no folder with config.json at " + looked_in +
                   "; give --model a path, or its folder with --model-path");
}

std::string missing_model(const config::ModelOptions& options, const std::string& folder) {
  const std::string opened = fs::path(folder).filename().string();
  if (options.name.empty() || is_path(options.name) || options.name == opened) return "";
  return "model.name: " + options.name + " is in no model folder; the bundled model " + opened +
         " is served under its own name (give --model a path, or --model-path the folder it is in)";
}

}  // namespace engramd::server
