// Which table of vector kernels this processor can run.
#include <cstring>

#include "kernels/cpu/vector_kernels.h"

namespace engramd::kernels {

extern const VectorKernels kAvx512Kernels;
extern const VectorKernels kAvx2Kernels;
extern const VectorKernels kPortableKernels;

namespace {

struct Candidate {
  const VectorKernels* kernels;
  bool (*supported)();
};

// The features each table is compiled for (kernels/CMakeLists.txt). __builtin_cpu_supports also
// asks the operating system whether it saves the registers.
const Candidate kCandidates[] = {
    {&kAvx512Kernels,
     [] {
       return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
              __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
              __builtin_cpu_supports("fma") != 0;
     }},
    {&kAvx2Kernels,
     [] { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0; }},
    {&kPortableKernels, [] { return true; }},
};

}  // namespace

const VectorKernels* find_vector_kernels(const char* name) {
  for (const Candidate& candidate : kCandidates) {
    const bool wanted =
        std::strcmp(name, "auto") == 0 || std::strcmp(name, candidate.kernels->name) == 0;
    if (wanted && candidate.supported()) return candidate.kernels;
  }
  return nullptr;
}

}  // namespace engramd::kernels
