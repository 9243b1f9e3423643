// Activation: a growing array of floats in the memory of a backend, which may be a GPU's.
// Engine thread only; the backend outlives it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/backend.h"

namespace engramd::engine {

class Activation {
 public:
  explicit Activation(kernels::Backend& backend) : backend_(&backend) {}
  ~Activation() { backend_->release(data_); }
  Activation(const Activation&) = delete;
  Activation& operator=(const Activation&) = delete;

  // Grows only, and then loses its content: no allocation per token once the largest batch was
  // seen.
  void grow(std::int64_t size) {
    if (size <= capacity_) return;
    backend_->release(std::exchange(data_, nullptr));
    capacity_ = 0;
    data_ = static_cast<float*>(backend_->allocate(bytes_of(size)));
    capacity_ = size;
  }
  float* data() { return data_; }
  std::int64_t capacity() const { return capacity_; }

  // The first `size` values in the process's memory; valid until the next call.
  std::span<const float> view(std::int64_t size) {
    if (backend_->on_host()) return {data_, static_cast<std::size_t>(size)};
    host_ = copy(size);
    return host_;
  }
  std::vector<float> copy(std::int64_t size) {
    std::vector<float> values(static_cast<std::size_t>(size));
    backend_->download(values.data(), data_, bytes_of(size));
    return values;
  }

 private:
  static std::int64_t bytes_of(std::int64_t size) {
    return size * static_cast<std::int64_t>(sizeof(float));
  }

  kernels::Backend* backend_;
  float* data_ = nullptr;
  std::int64_t capacity_ = 0;
  std::vector<float> host_;
};

}  // namespace engramd::engine
