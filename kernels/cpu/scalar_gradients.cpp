#include "kernels/cpu/scalar_gradients.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/scalar_math.h"

namespace engramd::kernels {

namespace {

// One division of a square matrix by the sums of its rows or columns, as it came out.
struct Normalized {
  bool by_rows = false;
  std::vector<double> c;     // [n, n] as [dst][src]
  std::vector<double> sums;  // [n] what was divided by
};

std::size_t cell(int n, bool by_rows, int line, int i) {
  return static_cast<std::size_t>(by_rows ? line * n + i : i * n + line);
}

Normalized normalized(const std::vector<double>& c, int n, bool by_rows, double eps) {
  Normalized step{by_rows, c, std::vector<double>(static_cast<std::size_t>(n), eps)};
  for (int line = 0; line < n; ++line) {
    double& sum = step.sums[static_cast<std::size_t>(line)];
    for (int i = 0; i < n; ++i) sum += c[cell(n, by_rows, line, i)];
    for (int i = 0; i < n; ++i) step.c[cell(n, by_rows, line, i)] /= sum;
  }
  return step;
}

// c' = c / (sum + eps): dL/dc_i = (dL/dc'_i - sum_j dL/dc'_j c'_j) / (sum + eps).
void back_through(const Normalized& step, int n, std::vector<double>& grad) {
  for (int line = 0; line < n; ++line) {
    double along = 0;
    for (int i = 0; i < n; ++i) {
      const std::size_t at = cell(n, step.by_rows, line, i);
      along += grad[at] * step.c[at];
    }
    for (int i = 0; i < n; ++i) {
      double& g = grad[cell(n, step.by_rows, line, i)];
      g = (g - along) / step.sums[static_cast<std::size_t>(line)];
    }
  }
}

}  // namespace

void hyper_coefficients_gradient(const HyperConnection& hc, const double* mix,
                                 const double* grad_pre, const double* grad_post,
                                 const double* grad_comb, double* grad_mix) {
  const int n = hc.n_streams;
  for (int s = 0; s < n; ++s) {
    const double pre = sigmoid(mix[s] * hc.scale[0] + hc.base[s]);
    const double post = sigmoid(mix[n + s] * hc.scale[1] + hc.base[n + s]);
    grad_mix[s] = grad_pre[s] * pre * (1 - pre) * hc.scale[0];
    grad_mix[n + s] = grad_post[s] * 2 * post * (1 - post) * hc.scale[1];
  }
  const auto width = static_cast<std::size_t>(n);
  const std::size_t cells = width * width;
  std::vector<double> softmax(cells);  // over src
  std::vector<double> c(cells);
  for (int dst = 0; dst < n; ++dst) {
    double largest = -INFINITY;
    for (int src = 0; src < n; ++src) {
      const int i = dst * n + src;
      c[static_cast<std::size_t>(i)] = mix[2 * n + i] * hc.scale[2] + hc.base[2 * n + i];
      largest = std::max(largest, c[static_cast<std::size_t>(i)]);
    }
    double sum = 0;
    for (int src = 0; src < n; ++src) {
      const std::size_t at = static_cast<std::size_t>(dst) * width + static_cast<std::size_t>(src);
      sum += softmax[at] = std::exp(c[at] - largest);
    }
    for (int src = 0; src < n; ++src) {
      const std::size_t at = static_cast<std::size_t>(dst) * width + static_cast<std::size_t>(src);
      softmax[at] /= sum;
      c[at] = softmax[at] + hc.hc_eps;
    }
  }
  std::vector<Normalized> steps{normalized(c, n, false, hc.hc_eps)};
  for (int i = 1; i < hc.sinkhorn_iterations; ++i) {
    steps.push_back(normalized(steps.back().c, n, true, hc.hc_eps));
    steps.push_back(normalized(steps.back().c, n, false, hc.hc_eps));
  }
  std::vector<double> grad(grad_comb, grad_comb + n * n);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) back_through(*step, n, grad);
  for (int dst = 0; dst < n; ++dst) {
    double along = 0;
    for (int src = 0; src < n; ++src) {
      const std::size_t at = static_cast<std::size_t>(dst) * width + static_cast<std::size_t>(src);
      along += grad[at] * softmax[at];
    }
    for (int src = 0; src < n; ++src) {
      const std::size_t at = static_cast<std::size_t>(dst) * width + static_cast<std::size_t>(src);
      grad_mix[2 * n + dst * n + src] = softmax[at] * (grad[at] - along) * hc.scale[2];
    }
  }
}

void route_gradient(const MixtureOfExperts& weights, const double* logits,
                    const std::int32_t* experts, const double* grad_weights, double* grad_logits) {
  const int k = weights.num_experts_per_tok;
  double sum = 1e-20;
  double along = 0;  // sum_j dL/dw_j score_j
  for (int i = 0; i < k; ++i) {
    const double score = sigmoid(logits[experts[i]]);
    sum += score;
    along += grad_weights[i] * score;
  }
  for (int i = 0; i < k; ++i) {
    const double score = sigmoid(logits[experts[i]]);
    const double grad_score =
        weights.norm_topk_prob ? (grad_weights[i] - along / sum) / sum : grad_weights[i];
    grad_logits[i] = grad_score * weights.routed_scaling_factor * score * (1 - score);
  }
}

double engram_gate_gradient(double dot, double gate) {
  if (std::fabs(dot) <= kGateRootFloor) return 0;
  return gate * (1 - gate) / (2 * std::sqrt(std::fabs(dot)));
}

}  // namespace engramd::kernels
