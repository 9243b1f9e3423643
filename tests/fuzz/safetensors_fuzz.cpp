// links: engramd_checkpoint
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const auto header =
      engramd::engine::parse_safetensors_header(file, static_cast<std::int64_t>(size));
  if (!header) return 0;
  for (const auto& tensor : header->tensors) {  // what open() promises: inside the file
    ENGRAMD_ASSERT(tensor.begin_bytes >= header->data_begin_bytes);
    ENGRAMD_ASSERT(tensor.length_bytes >= 0);
    ENGRAMD_ASSERT(tensor.begin_bytes + tensor.length_bytes <= static_cast<std::int64_t>(size));
  }
  return 0;
}
