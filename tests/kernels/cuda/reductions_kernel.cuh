// A kernel that calls the shared sums and maxima one right after another: there, and nowhere else,
// each of their barriers protects something.
#pragma once

#include "kernels/cuda/execution.h"
#include "kernels/cuda/reductions.cuh"

namespace engramd::kernels::cuda {

struct ReductionsKernel {
  using Shared = BlockScratch;
  static constexpr int kThreads = 96;
  static constexpr const char* kName = "reductions";

  DeviceSpan<const float> x;  // [n, kThreads]
  DeviceSpan<float> out;      // [n, kThreads]
  int n = 0;

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared& shared) const {
    float total = 0;
    for (int i = 0; i < n; ++i) {
      const float mine = x[i * kThreads + thread.index()];
      total += block_max(thread, shared, mine);
      total += block_max(thread, shared, -mine);
      total += block_sum(thread, shared, mine);
    }
    out[thread.index()] = total;
  }
};

}  // namespace engramd::kernels::cuda
