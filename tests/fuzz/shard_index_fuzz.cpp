// links: engramd_checkpoint
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/checkpoint/shard_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto index =
      engramd::engine::parse_shard_index({reinterpret_cast<const char*>(data), size});
  if (!index) return 0;
  for (const auto& [tensor, shard] : index->shard_of) ENGRAMD_ASSERT(shard < index->files.size());
  for (const auto& file : index->files) ENGRAMD_ASSERT(file.find('/') == std::string::npos);
  return 0;
}
