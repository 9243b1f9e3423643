#include "kernels/cuda/cuda_device.h"

#include <cstring>

#include <cuda_runtime_api.h>

namespace engramd::kernels::cuda {

namespace {

constexpr std::int64_t kRingBytes = std::int64_t{4} << 20;
constexpr std::int64_t kRingUploadBytesMax = kRingBytes / 16;  // larger ones are not worth copying

std::size_t size_of(std::int64_t bytes) {
  return static_cast<std::size_t>(bytes);
}
cudaStream_t stream_of(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

}  // namespace

void check_cuda(int code, const char* what) {
  if (code == cudaSuccess) return;
  const auto error = static_cast<cudaError_t>(code);
  throw DeviceError(std::string("GPU: ") + what + ": " + cudaGetErrorString(error) + " (" +
                    cudaGetErrorName(error) + ")");
}

CudaDevice::CudaDevice(int index) : index_(index), name_("cuda:" + std::to_string(index)) {
  use();
  cudaDeviceProp properties{};
  check_cuda(cudaGetDeviceProperties(&properties, index), "asking for its properties");
  limits_.shared_bytes_per_block = static_cast<std::int64_t>(properties.sharedMemPerBlockOptin);
  limits_.n_multiprocessors = properties.multiProcessorCount;
  limits_.bf16_mma = properties.major >= 8;
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  stream_ = stream;
  ring_ = static_cast<std::byte*>(allocate_pinned(kRingBytes));
}

void CudaDevice::use() const {
  check_cuda(cudaSetDevice(index_), "choosing the device");
}

CudaDevice::~CudaDevice() {  // what fails here has failed before
  static_cast<void>(cudaStreamSynchronize(stream_of(stream_)));
  static_cast<void>(cudaFreeHost(ring_));
  static_cast<void>(cudaStreamDestroy(stream_of(stream_)));
}

void* CudaDevice::allocate(std::int64_t bytes) {
  use();
  void* memory = nullptr;
  const std::string what = "allocating " + std::to_string(bytes) + " bytes";
  check_cuda(cudaMalloc(&memory, size_of(bytes)), what.c_str());
  return memory;
}
void CudaDevice::release(void* memory) {  // waits for the kernels that still use it
  static_cast<void>(cudaFree(memory));
}

void* CudaDevice::allocate_pinned(std::int64_t bytes) {
  use();
  void* memory = nullptr;
  const std::string what = "pinning " + std::to_string(bytes) + " bytes of host memory";
  check_cuda(cudaHostAlloc(&memory, size_of(bytes), cudaHostAllocMapped), what.c_str());
  return memory;
}
void CudaDevice::release_pinned(void* memory) {
  synchronize();
  check_cuda(cudaFreeHost(memory), "releasing pinned memory");
}

void CudaDevice::upload(void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  if (bytes <= kRingUploadBytesMax) {
    if (ring_used_bytes_ + bytes > kRingBytes) {
      synchronize();  // the copies out of the ring are done
      ring_used_bytes_ = 0;
    }
    std::byte* place = ring_ + ring_used_bytes_;
    ring_used_bytes_ += bytes;
    std::memcpy(place, from, size_of(bytes));
    from = place;
  }
  check_cuda(cudaMemcpyAsync(to, from, size_of(bytes), cudaMemcpyHostToDevice, stream_of(stream_)),
             "an upload");
}

void CudaDevice::download(void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  check_cuda(cudaMemcpyAsync(to, from, size_of(bytes), cudaMemcpyDeviceToHost, stream_of(stream_)),
             "a download");
  synchronize();
}

void CudaDevice::copy(void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0) return;
  check_cuda(
      cudaMemcpyAsync(to, from, size_of(bytes), cudaMemcpyDeviceToDevice, stream_of(stream_)),
      "a copy on the device");
}

void CudaDevice::synchronize() {
  check_cuda(cudaStreamSynchronize(stream_of(stream_)), "waiting for the kernels");
}

}  // namespace engramd::kernels::cuda
