// The launches of products with weights of every format.
#include "kernels/cuda/cuda_launch.cuh"
#include "kernels/cuda/linear.cuh"

namespace engramd::kernels::cuda {

template void CudaDevice::launch(const StreamLinearKernel<WeightFormat::kF32, 1>&, const Grid&);
template void CudaDevice::launch(const StreamLinearKernel<WeightFormat::kF32, 4>&, const Grid&);
template void CudaDevice::launch(const StreamLinearKernel<WeightFormat::kBF16, 1>&, const Grid&);
template void CudaDevice::launch(const StreamLinearKernel<WeightFormat::kBF16, 4>&, const Grid&);
template void CudaDevice::launch(const StreamLinearKernel<WeightFormat::kF8E4M3, 1>&, const Grid&);
template void CudaDevice::launch(const StreamLinearKernel<WeightFormat::kF8E4M3, 4>&, const Grid&);
template void CudaDevice::launch(const StreamLinearKernel<WeightFormat::kI8, 1>&, const Grid&);
template void CudaDevice::launch(const StreamLinearKernel<WeightFormat::kI8, 4>&, const Grid&);
template void CudaDevice::launch(const StreamLinearKernel<WeightFormat::kI4, 1>&, const Grid&);
template void CudaDevice::launch(const StreamLinearKernel<WeightFormat::kI4, 4>&, const Grid&);
template void CudaDevice::launch(const TransposeKeysKernel&, const Grid&);

}  // namespace engramd::kernels::cuda
