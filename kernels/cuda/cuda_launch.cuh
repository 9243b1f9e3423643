// CudaDevice::launch, for the .cu files that instantiate it.
#pragma once

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/gpu_thread.cuh"

namespace engramd::kernels::cuda {

inline constexpr std::int64_t kSharedBytesUnasked = 48 * 1024;  // more needs leave

template <class Kernel>
void CudaDevice::launch(const Kernel& kernel, const Grid& grid) {
  use();
  if (grid.dynamic_shared_bytes + static_cast<std::int64_t>(sizeof(typename Kernel::Shared)) >
      kSharedBytesUnasked) {
    check_cuda(cudaFuncSetAttribute(run_kernel<Kernel>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(grid.dynamic_shared_bytes)),
               Kernel::kName);
  }
  const dim3 blocks(static_cast<unsigned>(grid.blocks_x), static_cast<unsigned>(grid.blocks_y),
                    static_cast<unsigned>(grid.blocks_z));
  run_kernel<Kernel>
      <<<blocks, Kernel::kThreads, static_cast<std::size_t>(grid.dynamic_shared_bytes),
         static_cast<cudaStream_t>(stream_)>>>(kernel);
  check_cuda(cudaGetLastError(), Kernel::kName);
}

}  // namespace engramd::kernels::cuda
