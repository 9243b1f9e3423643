// The launches of tiled products on the tensor cores.
#include "kernels/cuda/cuda_launch.cuh"
#include "kernels/cuda/linear.cuh"

namespace engramd::kernels::cuda {

template void CudaDevice::launch(const TileLinearKernel<WeightFormat::kBF16, 1>&, const Grid&);
template void CudaDevice::launch(const TileLinearKernel<WeightFormat::kBF16, 3>&, const Grid&);
template void CudaDevice::launch(const TileLinearKernel<WeightFormat::kF8E4M3, 1>&, const Grid&);
template void CudaDevice::launch(const TileLinearKernel<WeightFormat::kF8E4M3, 3>&, const Grid&);
template void CudaDevice::launch(const TileLinearKernel<WeightFormat::kI8, 1>&, const Grid&);
template void CudaDevice::launch(const TileLinearKernel<WeightFormat::kI8, 3>&, const Grid&);
template void CudaDevice::launch(const TileLinearKernel<WeightFormat::kI4, 1>&, const Grid&);
template void CudaDevice::launch(const TileLinearKernel<WeightFormat::kI4, 3>&, const Grid&);

}  // namespace engramd::kernels::cuda
