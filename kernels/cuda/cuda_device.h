// CudaDevice: one GPU of this machine, through the CUDA runtime, as a KernelDevice. Owns a stream
// and a ring of pinned memory through which small uploads pass, so that they do not wait for the
// kernels before them. Engine thread only. launch() is defined for the kernels of kernels/cuda by
// the .cu files, so that only these need nvcc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/cuda/device.h"

namespace engramd::kernels::cuda {

class CudaDevice {
 public:
  explicit CudaDevice(int index);  // of the runtime; throws DeviceError
  ~CudaDevice();
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  const char* name() const { return name_.c_str(); }  // "cuda:0"
  DeviceLimits limits() const { return limits_; }
  void* allocate(std::int64_t bytes);
  void release(void* memory);
  void* allocate_pinned(std::int64_t bytes);
  void release_pinned(void* memory);
  void upload(void* to, const void* from, std::int64_t bytes);
  void download(void* to, const void* from, std::int64_t bytes);
  void copy(void* to, const void* from, std::int64_t bytes);
  void synchronize();
  template <class Kernel>
  void launch(const Kernel& kernel, const Grid& grid);

 private:
  void use() const;  // by the calling thread

  int index_;
  std::string name_;
  DeviceLimits limits_;
  void* stream_ = nullptr;  // cudaStream_t
  std::byte* ring_ = nullptr;
  std::int64_t ring_used_bytes_ = 0;
};

// Throws DeviceError with what was done and what the runtime says. code: cudaError_t.
void check_cuda(int code, const char* what);

}  // namespace engramd::kernels::cuda
