// The launches of attention and Engram.
#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/cuda_launch.cuh"
#include "kernels/cuda/engram.cuh"

namespace engramd::kernels::cuda {

template void CudaDevice::launch(const StoreLatentKernel&, const Grid&);
template void CudaDevice::launch(const StoreGroupedKernel&, const Grid&);
template void CudaDevice::launch(const AttentionKernel<1>&, const Grid&);
template void CudaDevice::launch(const AttentionKernel<4>&, const Grid&);
template void CudaDevice::launch(const AttentionKernel<8>&, const Grid&);
template void CudaDevice::launch(const JoinSplitsKernel&, const Grid&);
template void CudaDevice::launch(const EngramHashKernel&, const Grid&);
template void CudaDevice::launch(const GatherTableRowsKernel&, const Grid&);
template void CudaDevice::launch(const EngramGateKernel&, const Grid&);
template void CudaDevice::launch(const EngramConvolveKernel&, const Grid&);

}  // namespace engramd::kernels::cuda
