// HostBackend: what all backends that compute on the processor share: their memory is the
// process's own, and moving rows is copying them.
#pragma once

#include <cstring>
#include <new>

#include "kernels/backend.h"
#include "kernels/number_formats.h"

namespace engramd::kernels {

class HostBackend : public Backend {
 public:
  bool on_host() const final { return true; }
  void* allocate(std::int64_t bytes) final {
    return ::operator new(static_cast<std::size_t>(bytes), kCacheLine);
  }
  void release(void* memory) final { ::operator delete(memory, kCacheLine); }
  void upload(void* to, const void* from, std::int64_t bytes) final {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  void download(void* to, const void* from, std::int64_t bytes) final { upload(to, from, bytes); }

  void gather_rows(const float* x, std::span<const std::int32_t> rows, std::int64_t width,
                   float* out) final {
    for (const std::int32_t row : rows) {
      std::memmove(out, x + row * width, static_cast<std::size_t>(width) * sizeof(float));
      out += width;
    }
  }
  void round_values(DType dtype, std::int64_t n, float* x) final {
    for (std::int64_t i = 0; i < n; ++i) {
      x[i] = dtype == DType::kF16 ? decode_f16(encode_f16(x[i])) : decode_bf16(encode_bf16(x[i]));
    }
  }

 private:
  static constexpr std::align_val_t kCacheLine{64};
};

}  // namespace engramd::kernels
