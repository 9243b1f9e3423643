// Runs a fuzz target once over every file of the given folders: what libFuzzer does with -runs=0,
// for builds of g++. A failure is the target's own (an assertion, a sanitizer's report); a folder
// without files fails too, because it would test nothing.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int argc, char** argv) {
  std::size_t n_seeds = 0;
  for (int i = 1; i < argc; ++i) {
    std::error_code error;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i], error)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes(std::istreambuf_iterator<char>(file), {});
      std::fprintf(stderr, "%s\n", entry.path().c_str());  // names the seed when the target dies
      LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
      ++n_seeds;
    }
  }
  std::fprintf(stderr, "%zu seeds\n", n_seeds);
  return n_seeds > 0 ? 0 : 1;
}
