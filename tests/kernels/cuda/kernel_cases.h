// The kernels of kernels/cuda with inputs and what the scalar references say of them, for the tests
// that run them in every order and for those that break them on purpose.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/cuda/hosted_backend.h"

namespace engramd::kernels::cuda {

struct KernelCase {
  std::string name;
  double tolerance = 1e-10;  // of the normalised mean square error
  std::vector<float> expected;
  std::function<std::vector<float>(HostedBackend&)> run;
};

double normalised_error(const std::vector<float>& got, const std::vector<float>& expected);

enum class CaseSize {
  kSmall,   // a fraction of a second for all of them: each runs some hundred times
  kMiddle,  // 7 and 33 tokens, widths beside every tile
  kRagged,  // 1, 7, 33 and 257 tokens
};

std::vector<KernelCase> backend_cases(CaseSize size);    // through the operations of backend.h
std::vector<KernelCase> quantized_cases(CaseSize size);  // weights in fp8, int8 and int4
std::vector<KernelCase> routing_cases(CaseSize size);    // softmax, groups, one expert for all
std::vector<KernelCase> grouped_attention_cases(CaseSize size);
std::vector<KernelCase> engram_cases(CaseSize size);  // the hash, rows of every codec
std::vector<KernelCase> sampling_cases(CaseSize size);
std::vector<KernelCase> all_cases(CaseSize size);

}  // namespace engramd::kernels::cuda
