// Inputs and outputs of a kernel that a test launches itself: copies on the device for the length
// of a scope.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/execution.h"
#include "tests/kernels/cuda/test_device.h"

namespace engramd::kernels::cuda {

class DeviceCopies {
 public:
  explicit DeviceCopies(TestDevice& device) : device_(&device) {}
  ~DeviceCopies() {
    for (void* memory : memory_) device_->release(memory);
  }
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  template <class T>
  DeviceSpan<const T> in(const std::vector<T>& values) {
    const DeviceSpan<T> span = inout(values);
    return {span.data, span.size};
  }
  template <class T>
  DeviceSpan<T> inout(const std::vector<T>& values) {
    const DeviceSpan<T> span = out<T>(static_cast<std::int64_t>(values.size()));
    device_->upload(span.data, values.data(), span.size * static_cast<std::int64_t>(sizeof(T)));
    return span;
  }
  template <class T>
  DeviceSpan<T> out(std::int64_t n) {
    memory_.push_back(device_->allocate(n * static_cast<std::int64_t>(sizeof(T))));
    return {static_cast<T*>(memory_.back()), n};
  }
  template <class T>
  std::vector<T> fetch(const DeviceSpan<T>& span) {
    std::vector<T> values(static_cast<std::size_t>(span.size));
    device_->download(values.data(), span.data, span.size * static_cast<std::int64_t>(sizeof(T)));
    return values;
  }

 private:
  TestDevice* device_;
  std::vector<void*> memory_;
};

}  // namespace engramd::kernels::cuda
