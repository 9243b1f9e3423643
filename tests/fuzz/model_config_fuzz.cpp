// links: engramd_checkpoint
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/checkpoint/model_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto config =
      engramd::engine::parse_model_config({reinterpret_cast<const char*>(data), size});
  if (!config) return 0;
  ENGRAMD_ASSERT(config->num_experts_per_tok <= config->n_routed_experts);
  ENGRAMD_ASSERT(config->first_k_dense_replace <= config->num_hidden_layers);
  return 0;
}
