// Scalar pieces that the reference and the fast CPU backend share where speed is no matter: the
// per-token decisions (hyper-connection coefficients, routing), rotary angles and cache entries.
// Pure functions; what both backends must agree on to the bit lives here once.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/backend.h"

namespace engramd::kernels {

double sigmoid(double x);

// The gate of a normalised dot product: sigmoid of its signed root (arXiv 2601.07372, section 2.3).
inline constexpr double kGateRootFloor = 1e-6;  // of |dot|, the public demo's
double engram_gate(double dot, bool signed_zero);

// mix: [(2 + n) n], fn applied to the normed streams. pre, post: [n]. comb: [n, n] as [dst][src],
// made doubly stochastic by Sinkhorn steps.
void hyper_coefficients(const HyperConnection& hc, const double* mix, float* pre, float* post,
                        float* comb);

// scores: [n_routed_experts], gate logits. Fills the chosen experts (ascending) and their weights,
// both [num_experts_per_tok]. Ties go to the lower expert number.
void route(const MixtureOfExperts& weights, const double* logits, std::int32_t* experts,
           float* expert_weights);

// Rotates interleaved pairs (2i, 2i+1) of x [width] by position * theta^(-2i / width).
void rotate_pairs(float* x, int width, std::int32_t position, double theta);

// One entry of a paged cache: stored as its dtype, read back as fp32.
void store_entry(const PagedCache& cache, std::int64_t entry, const float* values);
void load_entry(const PagedCache& cache, std::int64_t entry, float* values);

}  // namespace engramd::kernels
