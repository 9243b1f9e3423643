// Rewrites the repository's generated texts from the code. Run by hand after an option changed.
#include <fstream>
#include <iostream>

#include "tests/config/generated.h"

int main() {
  using namespace engramd::config;
  std::vector<GeneratedFile> files = generated_files();
  const std::string readme = std::string(ENGRAMD_SOURCE_DIR) + "/README.md";
  const std::string updated = with_option_table(read_file(readme));
  if (!updated.empty()) files.push_back({readme, updated});
  for (const GeneratedFile& file : files) {
    std::ofstream(file.path, std::ios::binary) << file.text;
    std::cout << file.path << "\n";
  }
}
