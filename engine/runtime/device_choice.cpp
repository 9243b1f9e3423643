#include "engine/runtime/device_choice.h"

#include <algorithm>

#include "engine/engram/table_rows.h"

namespace engramd::engine {

namespace {

Result<std::unique_ptr<kernels::Backend>> open_cpu_backend(const LocalEngineOptions& options) {
  if (options.backend == "reference") return kernels::make_reference_backend();
  auto backend =
      kernels::make_cpu_backend({options.backend, options.threads, options.dtype == "bfloat16"});
  if (backend) return backend;
  return unavailable(
      "model.backend: expected auto, reference, portable, avx2 or avx512 as far as " +
      std::string("this processor has them, got ") + options.backend);
}

// Floats per token: the engine's activations and what the operations put beside them.
std::int64_t activation_floats(const Model& model) {
  const ModelConfig& c = model.config;
  const std::int64_t d = c.hidden_size;
  const std::int64_t n = c.hc_mult;
  const kernels::LatentAttention& attention = model.layers.front().attention;
  const std::int64_t streams = 3 * n * d + 4 * d + n * (n + 1);  // with keys and updates
  const std::int64_t heads =
      attention.query_width() + attention.latent_width() + attention.output_width() +
      std::int64_t{3} * attention.num_attention_heads * attention.kv_lora_rank;
  const std::int64_t experts =
      c.n_routed_experts + std::int64_t{c.num_experts_per_tok} * (2 * c.moe_intermediate_size + d);
  return streams + heads + std::max<std::int64_t>(experts, 2 * c.intermediate_size) +
         model.layout.columns_width();
}

std::string shortage(const kernels::GpuFacts& gpu, const DeviceMemoryPlan& plan,
                     std::int64_t limit_bytes) {
  return "cuda:" + std::to_string(gpu.index) + " (" + gpu.name + ") has room for " +
         gigabytes(limit_bytes) + ", the model needs " + text_of(plan) +
         "; lower inference.max_batch_size or inference.kv_cache_limit_gb, use "
         "inference.kv_cache_dtype = \"bfloat16\", or raise inference.gpu_memory_utilization";
}

}  // namespace

DeviceMemoryPlan plan_device_memory(const Model& model, const LocalEngineOptions& options,
                                    std::int64_t kv_cache_bytes) {
  DeviceMemoryPlan plan;
  plan.weights = model.checkpoint.bytes();
  for (const CheckpointRows& rows : model.engram_rows()) plan.weights -= rows.bytes();
  plan.kv_cache = kv_cache_bytes;
  const std::int64_t n_tokens = std::max(options.prefill_chunk_tokens, options.max_batch_size);
  plan.activations =
      static_cast<std::int64_t>(sizeof(float)) *
      (n_tokens * activation_floats(model) + options.max_batch_size * model.config.vocab_size);
  return plan;
}

std::string text_of(const DeviceMemoryPlan& plan) {
  return gigabytes(plan.total()) + ": weights " + gigabytes(plan.weights) + ", KV cache " +
         gigabytes(plan.kv_cache) + ", activations " + gigabytes(plan.activations) +
         ", Engram tables 0 GB (they stay in host memory)";
}

Result<DeviceDecision> decide_device(const LocalEngineOptions& options,
                                     const kernels::GpuList& gpus, const DeviceMemoryPlan& plan) {
  const bool automatic = options.device == "auto";
  if (options.device == "cpu" || (automatic && options.backend != "auto")) return DeviceDecision{};
  if (gpus.gpus.empty()) {
    return DeviceDecision{-1, "model.device is " + options.device + ", but " + gpus.problem};
  }
  DeviceDecision decision;
  for (const kernels::GpuFacts& gpu : gpus.gpus) {
    const std::string name = "cuda:" + std::to_string(gpu.index);
    if (!automatic && options.device != name) continue;
    const std::int64_t limit_bytes =
        std::min(gpu.free_bytes, static_cast<std::int64_t>(options.gpu_memory_utilization *
                                                           static_cast<double>(gpu.total_bytes)));
    if (plan.total() <= limit_bytes) return DeviceDecision{gpu.index, ""};
    const std::string why = shortage(gpu, plan, limit_bytes);
    if (!automatic) return unavailable("model.device: " + why);
    decision.note = why;
  }
  if (automatic) return decision;
  return invalid_argument(
      "model.device: expected cuda:" + std::to_string(gpus.gpus.front().index) +
      (gpus.gpus.size() > 1 ? " to cuda:" + std::to_string(gpus.gpus.back().index) : "") +
      ", got " + options.device);
}

Result<ChosenBackend> choose_backend(const Model& model, const LocalEngineOptions& options,
                                     std::int64_t kv_cache_bytes) {
  const kernels::GpuList gpus = options.device == "cpu" ? kernels::GpuList{} : kernels::list_gpus();
  auto decision = decide_device(options, gpus, plan_device_memory(model, options, kv_cache_bytes));
  if (decision.has_error()) return decision.error();
  ChosenBackend chosen;
  chosen.has_gpu = !gpus.gpus.empty();
  if (decision->gpu >= 0) {
    try {
      chosen.backend = kernels::make_cuda_backend(decision->gpu, options.dtype == "bfloat16");
      return chosen;
    } catch (const kernels::DeviceError& error) {
      if (options.device != "auto") return unavailable(error.what());
      decision->note = error.what();
    }
  }
  auto backend = open_cpu_backend(options);
  if (backend.has_error()) return backend.error();
  chosen.backend = std::move(*backend);
  chosen.note = std::move(decision->note);
  return chosen;
}

}  // namespace engramd::engine
