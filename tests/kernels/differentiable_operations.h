// The operations of kernels/gradients.h as functions in float64, written from
// install/models/engram-nano/ARCHITECTURE.md alone, beside a call of the gradient under test.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/gradients.h"

namespace engramd::kernels::test {

using Doubles = std::vector<double>;
using Floats = std::vector<float>;

struct Operation {
  std::string name;
  std::vector<Floats> inputs;
  // A weighted sum of the operation's results.
  std::function<double(const std::vector<Doubles>& inputs)> objective;
  // By the inputs, shapes as inputs.
  std::function<std::vector<Floats>(Gradients& gradients, const std::vector<Floats>& inputs)>
      gradient;
};

// size: 0 is small enough for central differences; larger ones fill tiles and vectors.
std::vector<Operation> differentiable_operations(int size);

}  // namespace engramd::kernels::test
