// Routed experts and the shared one.
#include <vector>

#include "kernels/cpu/reference/reference_backend.h"
#include "kernels/cpu/scalar_math.h"

namespace engramd::kernels {

void ReferenceBackend::mixture_of_experts(const MixtureOfExperts& weights, const float* x,
                                          std::int64_t n_tokens, float* out, std::int32_t* chosen) {
  const std::int64_t hidden_size = weights.gate.in_features();
  const std::size_t n_experts = weights.experts.size();
  const auto k = static_cast<std::size_t>(weights.num_experts_per_tok);
  std::vector<double> logits(n_experts);
  std::vector<std::int32_t> experts(k);
  std::vector<float> expert_weights(k);
  std::vector<float> y(static_cast<std::size_t>(hidden_size));
  std::vector<double> sum(static_cast<std::size_t>(hidden_size));
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    const float* token = x + t * hidden_size;
    for (std::size_t e = 0; e < n_experts; ++e) {
      const float* row =
          weights.gate.weight.as<float>() + static_cast<std::int64_t>(e) * hidden_size;
      logits[e] = 0;
      for (std::int64_t i = 0; i < hidden_size; ++i) logits[e] += double{row[i]} * token[i];
    }
    route(weights, logits.data(), experts.data(), expert_weights.data());
    std::fill(sum.begin(), sum.end(), 0.0);
    if (weights.shared != nullptr) {
      feed_forward(*weights.shared, token, 1, y.data());
      for (std::size_t i = 0; i < y.size(); ++i) sum[i] += y[i];
    }
    for (std::size_t slot = 0; slot < k; ++slot) {
      feed_forward(weights.experts[static_cast<std::size_t>(experts[slot])], token, 1, y.data());
      for (std::size_t i = 0; i < y.size(); ++i) sum[i] += double{expert_weights[slot]} * y[i];
      if (chosen != nullptr) chosen[static_cast<std::size_t>(t) * k + slot] = experts[slot];
    }
    for (std::size_t i = 0; i < y.size(); ++i) {
      out[static_cast<std::size_t>(t * hidden_size) + i] = static_cast<float>(sum[i]);
    }
  }
}

}  // namespace engramd::kernels
