// What the kernel cases run on: the block executor, or, in the programs of tests/device, a GPU.
#pragma once

#ifdef ENGRAMD_ON_GPU
#include "kernels/cuda/cuda_device.h"
#else
#include "tests/kernels/cuda/block_executor.h"
#endif

namespace engramd::kernels::cuda {

#ifdef ENGRAMD_ON_GPU
using TestDevice = CudaDevice;
#else
using TestDevice = BlockExecutor;
#endif

}  // namespace engramd::kernels::cuda
