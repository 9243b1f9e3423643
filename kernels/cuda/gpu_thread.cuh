// GpuThread: the vocabulary of execution.h as CUDA has it, and the one __global__ function that
// runs any kernel. Included by .cu files only.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/execution.h"

namespace engramd::kernels::cuda {

class GpuThread {
 public:
  __device__ int index() const { return static_cast<int>(threadIdx.x); }
  __device__ int n_threads() const { return static_cast<int>(blockDim.x); }
  __device__ int lane() const { return index() % kWarpLanes; }
  __device__ int warp() const { return index() / kWarpLanes; }
  __device__ int n_warps() const { return n_threads() / kWarpLanes; }
  __device__ std::int64_t block_x() const { return blockIdx.x; }
  __device__ int block_y() const { return static_cast<int>(blockIdx.y); }
  __device__ int block_z() const { return static_cast<int>(blockIdx.z); }
  __device__ int n_blocks_y() const { return static_cast<int>(gridDim.y); }

  __device__ StridedRange strided(int n) const { return {index(), n, n_threads()}; }
  __device__ StridedRange lane_strided(int n) const { return {lane(), n, kWarpLanes}; }
  __device__ StridedRange warp_strided(int n) const { return {warp(), n, n_warps()}; }

  __device__ void sync() const { __syncthreads(); }
  __device__ void sync_warp() const { __syncwarp(); }
  template <class T>
  __device__ T shuffle(T value, int lane) const {
    return __shfl_sync(kAllLanes, value, lane);
  }
  template <class T>
  __device__ T shuffle_xor(T value, int mask) const {
    return __shfl_xor_sync(kAllLanes, value, mask);
  }
  __device__ bool any(bool value) const { return __any_sync(kAllLanes, value ? 1 : 0) != 0; }

  __device__ void atomic_add(std::uint64_t& place, std::uint64_t value) const {
    ::atomicAdd(reinterpret_cast<unsigned long long*>(&place), value);
  }

  // Before sm_80 there is no bf16 product; the launcher takes the plain kernels there.
  __device__ void mma(MmaD& d, const MmaA& a, const MmaB& b) const {
#if __CUDA_ARCH__ >= 800
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d.values[0]), "+f"(d.values[1]), "+f"(d.values[2]), "+f"(d.values[3])
        : "r"(a.words[0]), "r"(a.words[1]), "r"(a.words[2]), "r"(a.words[3]), "r"(b.words[0]),
          "r"(b.words[1]));
#else
    __trap();
#endif
  }

  // Both aligned to 16 bytes; `to` lies in shared memory. Seen by this thread after wait_copies(),
  // by others after a barrier behind it.
  __device__ void copy_async(void* to, const void* from) const {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(to))),
                 "l"(from)
                 : "memory");
#else
    *static_cast<uint4*>(to) = *static_cast<const uint4*>(from);
#endif
  }
  __device__ void wait_copies() const {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  }

  __device__ DeviceSpan<float> dynamic_shared() const {
    extern __shared__ float4 memory[];  // aligned to 16 bytes
    return {reinterpret_cast<float*>(memory), 0};
  }

 private:
  static constexpr unsigned kAllLanes = 0xFFFFFFFFU;
};

template <class Kernel>
__global__ void __launch_bounds__(Kernel::kThreads, 1)
    run_kernel(const __grid_constant__ Kernel kernel) {
  __shared__ typename Kernel::Shared shared;
  GpuThread thread;
  kernel(thread, shared);
}

}  // namespace engramd::kernels::cuda
