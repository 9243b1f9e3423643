// links: engramd_config
#include <cstddef>
#include <cstdint>

#include "config/load_toml.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engramd::config;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const Setting& setting : load_toml(text, "f.toml", Rank::kConfigFile).settings) {
    // What was accepted must survive being written and read again.
    const std::string written = setting.row->key + " = " + to_toml(setting.value);
    const LoadedSettings again = load_toml(written, "/f.toml", Rank::kConfigFile);
    ENGRAMD_ASSERT(again.problems.empty() && again.settings[0].row == setting.row);
  }
  return 0;
}
