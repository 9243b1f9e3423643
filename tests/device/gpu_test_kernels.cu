// The launches of kernels that only tests have.
#include "kernels/cuda/cuda_launch.cuh"
#include "tests/kernels/cuda/reductions_kernel.cuh"

namespace engramd::kernels::cuda {

template void CudaDevice::launch(const ReductionsKernel&, const Grid&);

}  // namespace engramd::kernels::cuda
