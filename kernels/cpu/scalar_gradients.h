// The gradients of scalar_math.h's per-token decisions, shared by the reference and the fast
// backward pass. Pure functions.
#pragma once

#include <cstdint>

#include "kernels/backend.h"

namespace engramd::kernels {

// Of hyper_coefficients: from the gradients by pre [n], post [n] and comb [n, n] to that by mix
// [(2 + n) n], back through the Sinkhorn steps.
void hyper_coefficients_gradient(const HyperConnection& hc, const double* mix,
                                 const double* grad_pre, const double* grad_post,
                                 const double* grad_comb, double* grad_mix);

// Of route, for the experts that it chose: from the gradients by their weights
// [num_experts_per_tok] to those by their gate logits, same shape. All other logits have none.
void route_gradient(const MixtureOfExperts& weights, const double* logits,
                    const std::int32_t* experts, const double* grad_weights, double* grad_logits);

// Of engram_gate by the dot product; 0 below the root's floor, where the gate is flat.
double engram_gate_gradient(double dot, double gate);

}  // namespace engramd::kernels
