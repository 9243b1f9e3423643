// The launches of embedding, norms, hyper-connections, routing and sampling.
#include "kernels/cuda/cuda_launch.cuh"
#include "kernels/cuda/dense.cuh"
#include "kernels/cuda/experts.cuh"
#include "kernels/cuda/hyper_connection.cuh"
#include "kernels/cuda/sampling.cuh"

namespace engramd::kernels::cuda {

template void CudaDevice::launch(const EmbedKernel&, const Grid&);
template void CudaDevice::launch(const RmsNormKernel&, const Grid&);
template void CudaDevice::launch(const SiluMultiplyKernel&, const Grid&);
template void CudaDevice::launch(const GatherRowsKernel&, const Grid&);
template void CudaDevice::launch(const RoundKernel&, const Grid&);
template void CudaDevice::launch(const HyperReadKernel&, const Grid&);
template void CudaDevice::launch(const HyperWriteKernel&, const Grid&);
template void CudaDevice::launch(const HyperHeadKernel&, const Grid&);
template void CudaDevice::launch(const RouteKernel&, const Grid&);
template void CudaDevice::launch(const SortCellsKernel&, const Grid&);
template void CudaDevice::launch(const CombineCellsKernel&, const Grid&);
template void CudaDevice::launch(const SampleKernel&, const Grid&);

}  // namespace engramd::kernels::cuda
