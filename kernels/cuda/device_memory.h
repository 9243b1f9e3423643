// Pieces of device memory that a backend keeps: scratch that grows, small arrays that change little
// from call to call, and the device's copies of weights. Engine thread only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "config/assert.h"
#include "kernels/cuda/device.h"

namespace engramd::kernels::cuda {

// Scratch: grows only, and growing loses what it held.
template <KernelDevice Device, class T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(Device& device) : device_(&device) {}
  ~DeviceBuffer() { device_->release(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  DeviceSpan<T> grow(std::int64_t n) {
    if (n > capacity_) {
      device_->release(std::exchange(data_, nullptr));
      capacity_ = 0;
      data_ = static_cast<T*>(device_->allocate(n * static_cast<std::int64_t>(sizeof(T))));
      capacity_ = n;
    }
    return {data_, n};
  }
  T* data() const { return data_; }

 private:
  Device* device_;
  T* data_ = nullptr;
  std::int64_t capacity_ = 0;
};

// A host array and its copy, sent again only when it changed: slots and block tables are the same
// for all layers of a pass.
template <KernelDevice Device, class T>
class MirroredArray {
 public:
  explicit MirroredArray(Device& device) : device_(&device), buffer_(device) {}

  DeviceSpan<const T> send(std::span<const T> values) {
    const auto n = static_cast<std::int64_t>(values.size());
    const bool same = sent_.size() == values.size() &&
                      std::memcmp(sent_.data(), values.data(), values.size_bytes()) == 0;
    if (!same) {
      buffer_.grow(n);
      device_->upload(buffer_.data(), values.data(),
                      static_cast<std::int64_t>(values.size_bytes()));
      sent_.assign(values.begin(), values.end());
    }
    return {buffer_.data(), n};
  }

 private:
  Device* device_;
  DeviceBuffer<Device, T> buffer_;
  std::vector<T> sent_;
};

// The device's copies of weights, made when they are first used and kept: a model's weights neither
// move nor change. forget() when they do.
template <KernelDevice Device>
class WeightStore {
 public:
  explicit WeightStore(Device& device) : device_(&device) {}
  ~WeightStore() { forget(); }
  WeightStore(const WeightStore&) = delete;
  WeightStore& operator=(const WeightStore&) = delete;

  template <class T>
  DeviceSpan<const T> span(const T* host, std::int64_t n) {
    return {static_cast<const T*>(address(host, n * static_cast<std::int64_t>(sizeof(T)))),
            host == nullptr ? 0 : n};
  }
  const void* address(const void* host, std::int64_t bytes) {
    if (host == nullptr) return nullptr;
    const auto found = copies_.find(host);
    if (found != copies_.end()) {
      ENGRAMD_ASSERT(found->second.bytes >= bytes);  // a tensor is always asked for as a whole
      return found->second.memory;
    }
    void* copy = device_->allocate(bytes);
    copies_.emplace(host, Copy{copy, bytes});
    bytes_ += bytes;
    device_->upload(copy, host, bytes);
    return copy;
  }
  // Memory for what is made of `n` weights, the first at `first`; nullptr when it is not there yet.
  void* find_derived(const void* first, std::int64_t n) const {
    const auto found = derived_.find({first, n});
    return found == derived_.end() ? nullptr : found->second;
  }
  void* make_derived(const void* first, std::int64_t n, std::int64_t bytes) {
    void* memory = device_->allocate(bytes);
    bytes_ += bytes;
    derived_.emplace(std::pair(first, n), memory);
    return memory;
  }
  void forget() {
    for (const auto& [host, copy] : copies_) device_->release(copy.memory);
    for (const auto& [weights, memory] : derived_) device_->release(memory);
    copies_.clear();
    derived_.clear();
    bytes_ = 0;
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Copy {
    void* memory;
    std::int64_t bytes;
  };

  Device* device_;
  std::unordered_map<const void*, Copy> copies_;
  std::map<std::pair<const void*, std::int64_t>, void*> derived_;
  std::int64_t bytes_ = 0;
};

}  // namespace engramd::kernels::cuda
