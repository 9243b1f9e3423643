// What a build without CUDA says.
#include "kernels/cuda/cuda_backend.h"

namespace engramd::kernels {

GpuList list_gpus() {
  return {{},
          "this program was built without CUDA; install the CUDA Toolkit 13 (nvcc) and run "
          "install/setup.sh again"};
}

std::unique_ptr<Backend> make_cuda_backend(int, bool) {
  throw DeviceError(list_gpus().problem);
}

}  // namespace engramd::kernels
