#include "kernels/cuda/cuda_backend.h"

#include <cuda_runtime_api.h>

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/device_backend.h"
#include "kernels/cuda/device_backend_attention.h"
#include "kernels/cuda/device_backend_dense.h"

namespace engramd::kernels {

namespace {

constexpr int kComputeCapabilityMin = 75;  // the oldest that CUDA 13 compiles for

std::string reason_for(cudaError_t error) {
  if (error == cudaErrorNoDevice) return "no NVIDIA GPU was found (nvidia-smi should list one)";
  if (error == cudaErrorInsufficientDriver) {
    int driver = 0;
    int runtime = 0;
    static_cast<void>(cudaDriverGetVersion(&driver));
    static_cast<void>(cudaRuntimeGetVersion(&runtime));
    if (driver == 0) return "no NVIDIA driver is loaded (nvidia-smi should answer)";
    return "the NVIDIA driver is too old: it has CUDA " + std::to_string(driver / 1000) + "." +
           std::to_string(driver % 1000 / 10) + ", expected " + std::to_string(runtime / 1000) +
           ".0 or later; install a newer driver";
  }
  return std::string("the NVIDIA driver says: ") + cudaGetErrorString(error);
}

}  // namespace

GpuList list_gpus() {
  GpuList list;
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    list.problem = reason_for(error);
    return list;
  }
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) continue;
    const int capability = properties.major * 10 + properties.minor;
    if (capability < kComputeCapabilityMin) {
      list.problem = std::string(properties.name) + " has compute capability " +
                     std::to_string(properties.major) + "." + std::to_string(properties.minor) +
                     ", expected 7.5 or later";
      continue;
    }
    if (cudaSetDevice(index) != cudaSuccess ||
        cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) {
      list.problem = std::string(properties.name) + " cannot be used: another program may hold it";
      continue;
    }
    list.gpus.push_back({index, properties.name, capability, static_cast<std::int64_t>(total_bytes),
                         static_cast<std::int64_t>(free_bytes)});
  }
  if (!list.gpus.empty()) list.problem.clear();
  return list;
}

std::unique_ptr<Backend> make_cuda_backend(int index, bool bfloat16_activations) {
  return std::make_unique<cuda::DeviceBackend<cuda::CudaDevice>>(
      std::make_unique<cuda::CudaDevice>(index), bfloat16_activations);
}

}  // namespace engramd::kernels
