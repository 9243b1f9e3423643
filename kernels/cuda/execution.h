// What a kernel body is written in, so that nvcc compiles it for a GPU and any C++20 compiler for
// the block executor of the tests (tests/kernels/cuda/block_executor.h). A kernel is a struct: its
// members are its parameters, `Shared` is its shared memory, kThreads its block, and
//
//   template <class Thread> ENGRAMD_DEVICE void operator()(Thread& thread, Shared& shared) const
//
// its body, run once per thread of the grid. `Thread` is GpuThread (gpu_thread.cuh) or the
// executor's FiberThread; both have the same members:
//
//   index(), n_threads(), lane(), warp(), n_warps()   where in the block (one dimension)
//   block_x/y/z(), n_blocks_x/y/z()                   where in the grid
//   strided(n), lane_strided(n), warp_strided(n)      ranges that threads, lanes or warps share
//   sync()                       barrier of the block; all of its threads, at the same place
//   sync_warp(), shuffle(v, lane), shuffle_xor(v, mask), any(bool), mma(d, a, b)
//                                warp operations: always all 32 lanes, at the same place
//   copy_async(to, from), wait_copies()               16 bytes from global to shared memory
//   atomic_add(place, value)     integers only: their sums do not depend on the order
//   dynamic_shared()                                  floats, as many as the launch asked for
//
// Kernels are pure: no allocation, no files, no logging, no `return` before a barrier that others
// reach. Offsets into tensors are 64-bit, indices within a block int.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define ENGRAMD_DEVICE __device__ __forceinline__
#else
#define ENGRAMD_DEVICE inline
#endif

namespace engramd::kernels::cuda {

inline constexpr int kWarpLanes = 32;

struct Grid {
  std::int64_t blocks_x = 1;
  int blocks_y = 1, blocks_z = 1;  // at most 65,535 each
  std::int64_t dynamic_shared_bytes = 0;
};

#ifndef __CUDACC__
// The executor's: reports the place in the grid, and the thread does not go on.
[[noreturn]] void index_out_of_bounds(std::int64_t index, std::int64_t size);
[[noreturn]] void pointer_misaligned(const void* pointer, std::size_t bytes);
#endif

// Global memory as a kernel sees it: a pointer and, where the executor runs it, its bounds.
template <class T>
struct DeviceSpan {
  T* data = nullptr;
  std::int64_t size = 0;

  ENGRAMD_DEVICE T& operator[](std::int64_t index) const {
#ifndef __CUDACC__
    if (index < 0 || index >= size) index_out_of_bounds(index, size);
#endif
    return data[index];
  }
  // The rest from `index` on.
  ENGRAMD_DEVICE DeviceSpan from(std::int64_t index) const {
#ifndef __CUDACC__
    if (index < 0 || index > size) index_out_of_bounds(index, size);
#endif
    return {data + index, size - index};
  }
  ENGRAMD_DEVICE bool empty() const {
    return size == 0;
  }
};

template <class T>
constexpr DeviceSpan<T> device_span(T* data, std::int64_t size) {
  return {data, data == nullptr ? 0 : size};
}

// An array in shared memory, or in a thread's registers, with the same checks.
template <class T, int kSize>
struct DeviceArray {
  T values[kSize];

  ENGRAMD_DEVICE T& operator[](int index) {
#ifndef __CUDACC__
    if (index < 0 || index >= kSize) index_out_of_bounds(index, kSize);
#endif
    return values[index];
  }
  ENGRAMD_DEVICE const T& operator[](int index) const {
#ifndef __CUDACC__
    if (index < 0 || index >= kSize) index_out_of_bounds(index, kSize);
#endif
    return values[index];
  }
};

// 16 bytes in one access; index is in elements and a multiple of 16 bytes.
template <class T>
struct alignas(16) Vector16 {
  static constexpr int kElements = 16 / static_cast<int>(sizeof(T));
  T values[kElements];
};

template <class T>
ENGRAMD_DEVICE Vector16<T> load_vector(const DeviceSpan<const T>& span, std::int64_t index) {
  constexpr int kLast = Vector16<T>::kElements - 1;
  static_cast<void>(span[index + kLast]);
  const T* from = &span[index];
#ifndef __CUDACC__
  if (reinterpret_cast<std::uintptr_t>(from) % 16 != 0) pointer_misaligned(from, 16);
#endif
  return *reinterpret_cast<const Vector16<T>*>(from);
}

// i = begin, begin + step, ... < end; what strided() and its kind return.
struct StridedRange {
  int begin_index, end_index, step;

  struct Iterator {
    int index, step;
    ENGRAMD_DEVICE int operator*() const { return index; }
    ENGRAMD_DEVICE Iterator& operator++() {
      index += step;
      return *this;
    }
    ENGRAMD_DEVICE bool operator!=(const Iterator& end) const { return index < end.index; }
  };
  ENGRAMD_DEVICE Iterator begin() const { return {begin_index, step}; }
  ENGRAMD_DEVICE Iterator end() const { return {end_index, step}; }
};

// Operands of one warp-wide tensor-core product D[16, 8] += A[16, 16] B[16, 8] of bf16, spread over
// the lanes as the PTX manual lays out mma.m16n8k16: with g = lane / 4 and p = lane % 4,
// a[0] holds A[g][2p, 2p+1], a[1] A[g+8][..], a[2] A[g][2p+8, 2p+9], a[3] A[g+8][..+8];
// b[0] holds B[2p, 2p+1][g], b[1] B[2p+8, 2p+9][g]; d[0], d[1] are D[g][2p, 2p+1], d[2], d[3]
// D[g+8][..]. Two bf16 in one word, the lower index in the lower half.
struct MmaA {
  std::uint32_t words[4];
};
struct MmaB {
  std::uint32_t words[2];
};
struct MmaD {
  float values[4];
};

constexpr std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace engramd::kernels::cuda
