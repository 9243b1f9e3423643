#include "server/engine_options.h"

#include <utility>

#include "config/assert.h"
#include "config/option_table.h"

namespace engramd::server {
namespace {

// A choice as the option table spells it; the engine takes the same words.
std::string word_of(const config::Options& options, const char* key) {
  const config::OptionRow* row = config::find_option(key);
  ENGRAMD_ASSERT(row != nullptr);
  return std::get<std::string>(row->member.get(options));
}

}  // namespace

engine::LocalEngineOptions to_engine_options(const config::Options& options,
                                             std::string model_folder) {
  engine::LocalEngineOptions out;
  out.model_folder = std::move(model_folder);
  out.backend = word_of(options, "model.backend");
  out.dtype = word_of(options, "model.dtype");
  out.threads = static_cast<int>(options.inference.threads);
  out.max_batch_size = static_cast<int>(options.inference.max_batch_size);
  out.kv_cache_dtype = word_of(options, "inference.kv_cache_dtype");
  out.kv_cache_bytes_max = static_cast<std::int64_t>(options.inference.kv_cache_limit_gb * 1e9);
  out.prefill_chunk_tokens = static_cast<int>(options.inference.prefill_chunk_tokens);
  out.queue_length_max = static_cast<int>(options.limits.queue_length_max);
  out.experts_per_token = static_cast<int>(options.moe.top_k);
  out.engram_enabled = options.engram.enable;
  return out;
}

}  // namespace engramd::server
