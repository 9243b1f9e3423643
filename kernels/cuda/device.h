// The one narrow interface between the backend and what runs its kernels: a GPU (cuda_device.h) or
// the block executor of the tests. A concept, not a virtual class: a launch is a template, and a
// program holds one kind of device.
// Threads: the engine's alone. Failures are DeviceErrors, thrown here and caught in one place,
// where a forward pass is asked for.
#pragma once

#include <concepts>
#include <cstdint>

#include "kernels/cuda/execution.h"
#include "kernels/device_error.h"

namespace engramd::kernels::cuda {

struct DeviceLimits {
  std::int64_t shared_bytes_per_block = 48 * 1024;  // with dynamic shared memory
  int n_multiprocessors = 1;
  bool bf16_mma = true;  // sm_80 and later
};

// Work is queued in order; synchronize() and download() wait for it. `launch` takes any kernel of
// kernels/cuda. Pinned memory is the host's and readable by kernels.
template <class D>
concept KernelDevice = requires(D device, const D& view, void* memory, const void* source,
                                std::int64_t bytes) {
  { view.name() } -> std::convertible_to<const char*>;
  { view.limits() } -> std::same_as<DeviceLimits>;
  { device.allocate(bytes) } -> std::same_as<void*>;
  device.release(memory);
  { device.allocate_pinned(bytes) } -> std::same_as<void*>;
  device.release_pinned(memory);
  device.upload(memory, source, bytes);
  device.download(memory, source, bytes);
  device.copy(memory, source, bytes);
  device.synchronize();
};

}  // namespace engramd::kernels::cuda
