#include "server/engine_options.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "config/assert.h"
#include "config/option_table.h"
#include "server/process_memory.h"

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
  out.device = options.model.device;
  out.gpu_memory_utilization = options.inference.gpu_memory_utilization;
  out.backend = word_of(options, "model.backend");
  out.dtype = word_of(options, "model.dtype");
  out.threads = static_cast<int>(options.inference.threads);
  out.max_batch_size = static_cast<int>(options.inference.max_batch_size);
  out.kv_cache_dtype = word_of(options, "inference.kv_cache_dtype");
  out.kv_cache_bytes_max = static_cast<std::int64_t>(options.inference.kv_cache_limit_gb * 1e9);
  out.prefill_chunk_tokens = static_cast<int>(options.inference.prefill_chunk_tokens);
  out.queue_length_max = static_cast<int>(options.limits.queue_length_max);
  out.context_tokens_max = options.inference.context_tokens_max;
  out.prompt_tokens_max = options.limits.prompt_tokens_max;
  out.experts_per_token = static_cast<int>(options.moe.top_k);
  out.engram_enabled = options.engram.enable;
  out.async_prefetch = options.table.async_prefetch;
  out.prefetch_window = static_cast<int>(options.table.prefetch_window);
  out.tables.row_dtype = word_of(options, "engram.lookup_dtype");
  out.tables.row_file = table_file(options.table);
  out.tables.edits_file = options.table.edits;
  out.tables.edits_folder = options.table.state_folder;
  out.tables.open = to_table_open_options(options.table, available_memory_bytes());
  return out;
}

engine::TableOpenOptions to_table_open_options(const config::TableOptions& options,
                                               std::int64_t available_bytes) {
  engine::TableOpenOptions out;
  out.map = options.mmap;
  out.prefetch = options.prefetch;
  out.host_memory_bytes_max = static_cast<std::int64_t>(options.host_memory_limit_gb * 1e9);
  out.available_memory_bytes = available_bytes;
  out.cache_levels = static_cast<int>(options.cache_levels);
  return out;
}

std::string table_file(const config::TableOptions& options) {
  std::error_code code;
  return std::filesystem::exists(options.path, code) ? options.path : std::string();
}

}  // namespace engramd::server
