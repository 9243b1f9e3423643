// links: engramd_config
#include <cstddef>
#include <cstdint>

#include "config/load_json.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engramd::config;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const Setting& setting : load_json(text, "f.json").settings) {
    ENGRAMD_ASSERT(convert(*setting.row, {setting.value, {}}).has_value());
  }
  return 0;
}
