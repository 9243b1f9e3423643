#include "tests/tidy/source_tree.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>

namespace engramd::tidy {
namespace {

namespace fs = std::filesystem;

bool is_skipped_folder(const std::string& path) {
  static const std::set<std::string> kSkipped = {".git", "build", "tests/data", "tests/fuzz/seeds"};
  return kSkipped.contains(path) || path.starts_with("build-") || path.ends_with("node_modules");
}

bool is_text(const fs::path& path) {
  static const std::set<std::string> kText = {".h",   ".cpp", ".cu",   ".cuh",  ".txt",    ".cmake",
                                              ".sh",  ".md",  ".toml", ".json", ".js",     ".ts",
                                              ".mjs", ".cjs", ".py",   ".yml",  ".service"};
  return kText.contains(path.extension()) || path.extension().empty();
}

bool is_identifier_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

}  // namespace

bool SourceFile::is_header() const {
  return path.ends_with(".h") || path.ends_with(".cuh");
}
bool SourceFile::is_cpp() const {
  return is_header() || path.ends_with(".cpp") || path.ends_with(".cu");
}

std::vector<SourceFile> read_source_tree() {
  const fs::path root = ENGRAMD_SOURCE_DIR;
  std::vector<SourceFile> files;
  for (auto entry = fs::recursive_directory_iterator(root);
       entry != fs::recursive_directory_iterator(); ++entry) {
    const std::string path = fs::relative(entry->path(), root).generic_string();
    if (entry->is_directory()) {
      if (is_skipped_folder(path)) entry.disable_recursion_pending();
    } else if (entry->is_regular_file() && is_text(entry->path())) {
      SourceFile file{path, {}};
      std::ifstream stream(entry->path());
      for (std::string line; std::getline(stream, line);) file.lines.push_back(line);
      files.push_back(std::move(file));
    }
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

bool exists_in_tree(const std::string& path) {
  return fs::exists(fs::path(ENGRAMD_SOURCE_DIR) / path);
}

std::string code_of(std::string_view line) {
  std::string code;
  bool in_literal = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (in_literal && line[i] == '\\') {
      ++i;
    } else if (line[i] == '"' && (in_literal || i == 0 || line[i - 1] != '\'')) {
      in_literal = !in_literal;
      code += '"';
    } else if (!in_literal) {
      if (line.substr(i).starts_with("//")) break;
      code += line[i];
    }
  }
  return code;
}

bool has_token(std::string_view text, std::string_view token) {
  for (std::size_t at = text.find(token); at != std::string_view::npos;
       at = text.find(token, at + 1)) {
    const std::size_t end = at + token.size();
    const bool starts = at == 0 || !is_identifier_character(token.front()) ||
                        !is_identifier_character(text[at - 1]);
    const bool ends = end == text.size() || !is_identifier_character(token.back()) ||
                      !is_identifier_character(text[end]);
    if (starts && ends) return true;
  }
  return false;
}

std::string listing(const std::vector<std::string>& violations) {
  std::string text;
  for (const std::string& violation : violations) text += "\n  " + violation;
  return text;
}

}  // namespace engramd::tidy
