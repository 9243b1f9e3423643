// A backend on the block executor.
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cuda/device_backend.h"
#include "tests/kernels/cuda/block_executor.h"

namespace engramd::kernels::cuda {

using ExecutorBackend = DeviceBackend<BlockExecutor>;

// memory_bytes: of the device. Shared memory and multiprocessors of a small card, so that short
// tests also split their keys.
std::unique_ptr<ExecutorBackend> make_executor_backend(Schedule schedule = Schedule::kForward,
                                                       bool bfloat16_activations = false,
                                                       std::int64_t memory_bytes = std::int64_t{1}
                                                                                   << 30);

}  // namespace engramd::kernels::cuda
