// links: engramd_checkpoint
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/checkpoint/model_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static_cast<void>(engramd::engine::parse_tokenizer_config(text));
  static_cast<void>(engramd::engine::parse_generation_config(text));
  return 0;
}
