// The GPUs of this machine and a backend on one of them. In a build without CUDA there are none,
// and the list says why. Any thread may list; whoever makes a backend uses it from one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/device_error.h"

namespace engramd::kernels {

struct GpuFacts {
  int index = 0;
  std::string name;            // "NVIDIA L4"
  int compute_capability = 0;  // 89 is sm_89
  std::int64_t total_bytes = 0, free_bytes = 0;
};

struct GpuList {
  std::vector<GpuFacts> gpus;  // that this build can use
  std::string problem;         // why there are none, and what helps; empty when there are some
};

GpuList list_gpus();

// Throws DeviceError. bfloat16_activations: tensor cores see activations rounded to bf16.
std::unique_ptr<Backend> make_cuda_backend(int index, bool bfloat16_activations);

}  // namespace engramd::kernels
