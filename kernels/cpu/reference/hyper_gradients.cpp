// Hyper-connections, backwards.
#include <cmath>
#include <vector>

#include "kernels/cpu/reference/reference_gradients.h"
#include "kernels/cpu/scalar_gradients.h"
#include "kernels/cpu/scalar_math.h"

namespace engramd::kernels {

namespace {

// mix = fn * (h * factor), h: the concatenated streams of one token.
struct Projected {
  double factor = 0;
  std::vector<double> mix;  // [n_rows]
};

Projected project(const HyperConnection& hc, const float* h, int n_rows) {
  const int width = hc.n_streams * hc.hidden_size;
  double square = 0;
  for (int i = 0; i < width; ++i) square += double{h[i]} * h[i];
  Projected projected{1.0 / std::sqrt(square / width + hc.rms_norm_eps), {}};
  for (int row = 0; row < n_rows; ++row) {
    double sum = 0;
    for (int i = 0; i < width; ++i) sum += double{hc.fn[std::int64_t{row} * width + i]} * h[i];
    projected.mix.push_back(sum * projected.factor);
  }
  return projected;
}

void project_back(const HyperConnection& hc, const float* h, const Projected& projected,
                  const std::vector<double>& grad_mix, float* grad_h) {
  const int width = hc.n_streams * hc.hidden_size;
  double along = 0;
  for (std::size_t row = 0; row < grad_mix.size(); ++row) {
    along += grad_mix[row] * projected.mix[row];
  }
  for (int i = 0; i < width; ++i) {
    double grad = -along * projected.factor * projected.factor / width * h[i];
    for (std::size_t row = 0; row < grad_mix.size(); ++row) {
      grad += grad_mix[row] * projected.factor * hc.fn[static_cast<std::int64_t>(row) * width + i];
    }
    grad_h[i] = static_cast<float>(grad_h[i] + grad);
  }
}

// x = sum_s weights[s] h[s]: adds to grad_h, returns the gradient by the weights.
std::vector<double> weighted_sum_back(const HyperConnection& hc, const float* h,
                                      const std::vector<float>& weights, const float* grad_x,
                                      float* grad_h) {
  std::vector<double> grad_weights;
  for (int s = 0; s < hc.n_streams; ++s, h += hc.hidden_size, grad_h += hc.hidden_size) {
    double sum = 0;
    for (int i = 0; i < hc.hidden_size; ++i) {
      sum += double{grad_x[i]} * h[i];
      grad_h[i] =
          static_cast<float>(grad_h[i] + double{weights[static_cast<std::size_t>(s)]} * grad_x[i]);
    }
    grad_weights.push_back(sum);
  }
  return grad_weights;
}

}  // namespace

void ReferenceGradients::hyper_read(const HyperConnection& hc, const float* streams,
                                    std::int64_t n_tokens, const float* grad_x,
                                    const float* grad_post, const float* grad_comb,
                                    float* grad_streams) {
  const int n = hc.n_streams;
  const std::size_t n_rows = static_cast<std::size_t>(2 + n) * static_cast<std::size_t>(n);
  std::vector<float> pre(static_cast<std::size_t>(n));
  std::vector<float> post(pre.size());
  std::vector<float> comb(pre.size() * pre.size());
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    const float* h = streams + t * n * hc.hidden_size;
    float* grad_h = grad_streams + t * n * hc.hidden_size;
    const Projected projected = project(hc, h, (2 + n) * n);
    hyper_coefficients(hc, projected.mix.data(), pre.data(), post.data(), comb.data());
    const std::vector<double> grad_pre =
        weighted_sum_back(hc, h, pre, grad_x + t * hc.hidden_size, grad_h);
    const std::vector<double> by_post(grad_post + t * n, grad_post + (t + 1) * n);
    const std::vector<double> by_comb(grad_comb + t * n * n, grad_comb + (t + 1) * n * n);
    std::vector<double> grad_mix(n_rows);
    hyper_coefficients_gradient(hc, projected.mix.data(), grad_pre.data(), by_post.data(),
                                by_comb.data(), grad_mix.data());
    project_back(hc, h, projected, grad_mix, grad_h);
  }
}

void ReferenceGradients::hyper_write(const HyperConnection& hc, const float* streams,
                                     const float* y, const float* post, const float* comb,
                                     std::int64_t n_tokens, float* grad_streams, float* grad_y,
                                     float* grad_post, float* grad_comb) {
  const int n = hc.n_streams;
  const int width = hc.hidden_size;
  std::vector<double> grad(static_cast<std::size_t>(n));  // by the streams after, of one column
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    const float* h = streams + t * n * width;
    float* grad_h = grad_streams + t * n * width;
    for (int dst = 0; dst < n; ++dst) {
      double by_post = 0;
      for (int i = 0; i < width; ++i) by_post += double{grad_h[dst * width + i]} * y[t * width + i];
      grad_post[t * n + dst] = static_cast<float>(by_post);
      for (int src = 0; src < n; ++src) {
        double by_comb = 0;
        for (int i = 0; i < width; ++i) {
          by_comb += double{grad_h[dst * width + i]} * h[src * width + i];
        }
        grad_comb[(t * n + dst) * n + src] = static_cast<float>(by_comb);
      }
    }
    for (int i = 0; i < width; ++i) {
      double by_y = 0;
      for (int dst = 0; dst < n; ++dst) {
        grad[static_cast<std::size_t>(dst)] = grad_h[dst * width + i];
        by_y += double{post[t * n + dst]} * grad[static_cast<std::size_t>(dst)];
      }
      grad_y[t * width + i] = static_cast<float>(by_y);
      for (int src = 0; src < n; ++src) {
        double by_h = 0;
        for (int dst = 0; dst < n; ++dst) {
          by_h += double{comb[(t * n + dst) * n + src]} * grad[static_cast<std::size_t>(dst)];
        }
        grad_h[src * width + i] = static_cast<float>(by_h);
      }
    }
  }
}

void ReferenceGradients::hyper_head(const HyperConnection& hc, const float* streams,
                                    std::int64_t n_tokens, const float* grad_x,
                                    float* grad_streams) {
  const int n = hc.n_streams;
  std::vector<float> weights(static_cast<std::size_t>(n));
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    const float* h = streams + t * n * hc.hidden_size;
    float* grad_h = grad_streams + t * n * hc.hidden_size;
    const Projected projected = project(hc, h, n);
    for (std::size_t s = 0; s < weights.size(); ++s) {
      const double logit = projected.mix[s] * hc.scale[0] + hc.base[s];
      weights[s] = static_cast<float>(1.0 / (1.0 + std::exp(-logit)) + hc.hc_eps);
    }
    std::vector<double> grad_mix =
        weighted_sum_back(hc, h, weights, grad_x + t * hc.hidden_size, grad_h);
    for (std::size_t s = 0; s < weights.size(); ++s) {
      const double sigmoid = double{weights[s]} - hc.hc_eps;
      grad_mix[s] *= sigmoid * (1 - sigmoid) * hc.scale[0];
    }
    project_back(hc, h, projected, grad_mix, grad_h);
  }
}

}  // namespace engramd::kernels
