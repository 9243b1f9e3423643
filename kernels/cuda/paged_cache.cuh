// The paged cache as kernels see it: where the entry of a position lies, and its elements.
// An fp8 entry has one scale of its own.
#pragma once

#include "kernels/backend.h"
#include "kernels/cuda/execution.h"
#include "kernels/number_formats.h"

namespace engramd::kernels::cuda {

struct DeviceCache {
  DType dtype = DType::kF32;
  int width = 0;
  std::int64_t n_entries = 0;                   // of the executor's checks
  void* data = nullptr;                         // [n_entries, width]
  float* scales = nullptr;                      // [n_entries], kF8E4M3 only
  DeviceSpan<const std::int32_t> blocks;        // every sequence's block numbers, one after another
  DeviceSpan<const std::int32_t> first_blocks;  // [n_sequences], where each begins in blocks

  ENGRAMD_DEVICE std::int64_t entry(int sequence, int position) const {
    const int block = blocks[first_blocks[sequence] + position / kBlockTokens];
    return std::int64_t{block} * kBlockTokens + position % kBlockTokens;
  }
  ENGRAMD_DEVICE float load(std::int64_t entry, int column) const {
    const std::int64_t at = entry * width + column;
    const std::int64_t size = n_entries * width;
    if (dtype == DType::kF32) return DeviceSpan<float>{static_cast<float*>(data), size}[at];
    if (dtype == DType::kBF16) {
      return decode_bf16(DeviceSpan<std::uint16_t>{static_cast<std::uint16_t*>(data), size}[at]);
    }
    return decode_e4m3(DeviceSpan<std::uint8_t>{static_cast<std::uint8_t*>(data), size}[at]) *
           DeviceSpan<float>{scales, n_entries}[entry];
  }
  // scale: of the entry, from entry_scale(); 1 but for fp8.
  ENGRAMD_DEVICE void store(std::int64_t entry, int column, float value, float scale) const {
    const std::int64_t at = entry * width + column;
    const std::int64_t size = n_entries * width;
    if (dtype == DType::kF32) {
      DeviceSpan<float>{static_cast<float*>(data), size}[at] = value;
    } else if (dtype == DType::kBF16) {
      DeviceSpan<std::uint16_t>{static_cast<std::uint16_t*>(data), size}[at] = encode_bf16(value);
    } else {
      DeviceSpan<std::uint8_t>{static_cast<std::uint8_t*>(data), size}[at] =
          encode_e4m3(value / scale);
    }
  }
  ENGRAMD_DEVICE float entry_scale(float largest) const {
    return dtype == DType::kF8E4M3 && largest > 0 ? largest / kE4m3Max : 1.0F;
  }
};

}  // namespace engramd::kernels::cuda
