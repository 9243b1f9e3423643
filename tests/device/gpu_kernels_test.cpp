// Every kernel on the GPU of this machine against the scalar reference: the cases that the block
// executor runs elsewhere. No test framework, so that it builds where there is only a compiler.
//   gpu_kernels_test [small]    small: what compute-sanitizer runs, which slows kernels a
//   hundredfold
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device_backend_attention.h"
#include "kernels/cuda/device_backend_dense.h"
#include "tests/kernels/cuda/kernel_cases.h"

int main(int argc, char** argv) {
  using namespace engramd::kernels;
  const GpuList list = list_gpus();
  if (list.gpus.empty()) {
    std::fprintf(stderr, "gpu_kernels_test: %s\n", list.problem.c_str());
    return 3;
  }
  const bool small = argc > 1 && std::string(argv[1]) == "small";
  const auto cases = cuda::all_cases(small ? cuda::CaseSize::kSmall : cuda::CaseSize::kRagged);
  int n_failed = 0;
  try {
    cuda::HostedBackend backend(std::make_unique<cuda::TestBackend>(
        std::make_unique<cuda::CudaDevice>(list.gpus.front().index), false));
    for (const cuda::KernelCase& tested : cases) {
      const double error = cuda::normalised_error(tested.run(backend), tested.expected);
      if (error <= tested.tolerance) continue;
      ++n_failed;
      std::printf("FAILED: %s (%zu values): normalised error %g, expected at most %g\n",
                  tested.name.c_str(), tested.expected.size(), error, tested.tolerance);
    }
  } catch (const DeviceError& error) {
    std::printf("FAILED: %s\n", error.what());
    return 1;
  }
  std::printf("%zu cases, %d failed\n", cases.size(), n_failed);
  return n_failed == 0 ? 0 : 1;
}
