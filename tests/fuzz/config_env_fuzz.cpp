// links: engramd_config
#include <cstddef>
#include <cstdint>

#include "config/load_environment.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engramd::config;
  Environment environment;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const std::string& problem : add_dot_env(text, ".env", environment)) {
    ENGRAMD_ASSERT(problem.starts_with(".env:"));
  }
  for (const Setting& setting : load_environment(environment).settings) {
    ENGRAMD_ASSERT(convert(*setting.row, {setting.value, {}}).has_value());
  }
  return 0;
}
