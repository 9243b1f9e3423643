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
  const std::string name = options.name.empty() ? kBundledModel : options.name;
  if (name.find('/') != std::string::npos || name == "." || name == "..") {
    if (is_model(name)) return name;
    return not_found("model " + name + ": expected a folder with config.json, found none");
  }
  std::string looked_in;
  for (const fs::path& folder : model_folders(options.search_path, program_folder)) {
    const fs::path candidate = folder / name;
    if (is_model(candidate)) return candidate.lexically_normal().string();
    looked_in += (looked_in.empty() ? "" : ", ") + candidate.lexically_normal().string();
  }
  return not_found("model " + name + ": no folder with config.json at " + looked_in +
                   "; give --model a path, or its folder with --model-path");
}

}  // namespace engramd::server
