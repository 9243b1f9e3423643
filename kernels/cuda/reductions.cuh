// Sums and maxima over a warp and over a block. The order of additions is fixed, so a result does
// not depend on which warp comes first. The barrier before the write protects what an earlier call
// left in the same scratch.
#pragma once

#include <cmath>

#include "kernels/cuda/execution.h"

namespace engramd::kernels::cuda {

struct BlockScratch {
  DeviceArray<float, 1024 / kWarpLanes> partial;  // per warp
};

template <class Thread>
ENGRAMD_DEVICE float warp_sum(Thread& thread, float value) {
  for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) value += thread.shuffle_xor(value, mask);
  return value;
}

template <class Thread>
ENGRAMD_DEVICE float warp_max(Thread& thread, float value) {
  for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) {
    value = std::fmax(value, thread.shuffle_xor(value, mask));
  }
  return value;
}

// To every thread of the block.
template <class Thread>
ENGRAMD_DEVICE float block_sum(Thread& thread, BlockScratch& scratch, float value) {
  value = warp_sum(thread, value);
  thread.sync();
  if (thread.lane() == 0) scratch.partial[thread.warp()] = value;
  thread.sync();
  float sum = 0;
  for (int warp = 0; warp < thread.n_warps(); ++warp) sum += scratch.partial[warp];
  return sum;
}

template <class Thread>
ENGRAMD_DEVICE float block_max(Thread& thread, BlockScratch& scratch, float value) {
  value = warp_max(thread, value);
  thread.sync();
  if (thread.lane() == 0) scratch.partial[thread.warp()] = value;
  thread.sync();
  float largest = scratch.partial[0];
  for (int warp = 1; warp < thread.n_warps(); ++warp) {
    largest = std::fmax(largest, scratch.partial[warp]);
  }
  return largest;
}

ENGRAMD_DEVICE float device_sigmoid(float x) {
  return 1.0F / (1.0F + std::exp(-x));
}

}  // namespace engramd::kernels::cuda
