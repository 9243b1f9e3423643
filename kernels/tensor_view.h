// TensorView: a non-owning, typed, row-major view of weights or activations. Owns nothing, checks
// nothing at run time beyond asserts; whoever makes one has validated the bytes behind it
// (engine/checkpoint for files). Standard library only: device code includes it.
#pragma once

#include <array>
#include <cstdint>

#include "config/assert.h"

namespace engramd::kernels {

enum class DType : std::uint8_t {
  kF64,
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kF8E5M2,
  kF8E8M0,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool,
};

// Bytes of one element. Sub-byte types of the safetensors format have no DType: such tensors can
// stand in a file but cannot be bound.
constexpr std::int64_t bytes_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
    case DType::kU64:
      return 8;
    case DType::kF32:
    case DType::kI32:
    case DType::kU32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
    case DType::kI16:
    case DType::kU16:
      return 2;
    default:
      return 1;
  }
}

inline constexpr int kMaxDimensions = 4;

struct TensorView {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int n_dimensions = 0;
  std::array<std::int64_t, kMaxDimensions> shape{};  // row-major, outermost first

  std::int64_t n_elements() const {
    std::int64_t n = 1;
    for (int i = 0; i < n_dimensions; ++i) n *= shape[static_cast<std::size_t>(i)];
    return n;
  }
  std::int64_t bytes() const { return n_elements() * bytes_of(dtype); }

  template <class T>
  const T* as() const {
    ENGRAMD_ASSERT(static_cast<std::int64_t>(sizeof(T)) == bytes_of(dtype));
    return static_cast<const T*>(data);
  }
};

}  // namespace engramd::kernels
