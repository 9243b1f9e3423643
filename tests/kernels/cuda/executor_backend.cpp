#include "tests/kernels/cuda/executor_backend.h"

#include <utility>

#include "kernels/cuda/device_backend_attention.h"
#include "kernels/cuda/device_backend_dense.h"

namespace engramd::kernels::cuda {

std::unique_ptr<ExecutorBackend> make_executor_backend(Schedule schedule, bool bfloat16_activations,
                                                       std::int64_t memory_bytes) {
  auto device = std::make_unique<BlockExecutor>(memory_bytes);
  device->set_schedule(schedule);
  DeviceLimits limits;
  limits.n_multiprocessors = 4;
  device->set_limits(limits);
  return std::make_unique<ExecutorBackend>(std::move(device), bfloat16_activations);
}

template class DeviceBackend<BlockExecutor>;

}  // namespace engramd::kernels::cuda
