// Where a model runs: on a GPU or on the processor, and what that needs of the GPU's memory.
// Deciding is pure; only choose_backend() touches a device. Called by whoever opens an engine. Not
// here: the operations themselves (kernels).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "config/result.h"
#include "engine/model/model.h"
#include "engine/runtime/local_engine.h"
#include "kernels/backend.h"
#include "kernels/cuda/cuda_backend.h"

namespace engramd::engine {

// What a GPU must hold, in bytes. Rows of the Engram table are not in it: they stay in host memory
// and pass through a pinned buffer.
struct DeviceMemoryPlan {
  std::int64_t weights = 0;      // everything of the checkpoint but the tables
  std::int64_t kv_cache = 0;     // reserved at once
  std::int64_t activations = 0;  // of the largest batch
  std::int64_t total() const { return weights + kv_cache + activations; }
};
DeviceMemoryPlan plan_device_memory(const Model& model, const LocalEngineOptions& options,
                                    std::int64_t kv_cache_bytes);
std::string text_of(const DeviceMemoryPlan& plan);  // "0.034 GB: weights 0.020 GB, ..."

struct DeviceDecision {
  int gpu = -1;      // -1: the processor
  std::string note;  // why not a GPU, when one could have been meant; empty otherwise
};
// `auto` takes the first GPU that has room and falls back with a note. "cuda:N" is an error where
// there are GPUs but not this one, or where its memory is too small; where there are none at all it
// also falls back, so that a file written for another machine still serves.
Result<DeviceDecision> decide_device(const LocalEngineOptions& options,
                                     const kernels::GpuList& gpus, const DeviceMemoryPlan& plan);

struct ChosenBackend {
  std::unique_ptr<kernels::Backend> backend;
  std::string note;      // DeviceDecision's
  bool has_gpu = false;  // one is there, whether it is used or not
};
Result<ChosenBackend> choose_backend(const Model& model, const LocalEngineOptions& options,
                                     std::int64_t kv_cache_bytes);

}  // namespace engramd::engine
