// Hyper-connections: how a sublayer reads from and writes to the residual streams.
#include <cmath>
#include <vector>

#include "kernels/cpu/reference/reference_backend.h"
#include "kernels/cpu/scalar_math.h"

namespace engramd::kernels {

namespace {

// fn applied to the normed concatenation of the streams. mix: [n_rows].
std::vector<double> project_normed(const HyperConnection& hc, const float* streams, int n_rows) {
  const int width = hc.n_streams * hc.hidden_size;
  double square = 0;
  for (int i = 0; i < width; ++i) square += double{streams[i]} * streams[i];
  const double factor = 1.0 / std::sqrt(square / width + hc.rms_norm_eps);
  std::vector<double> mix(static_cast<std::size_t>(n_rows), 0.0);
  for (int row = 0; row < n_rows; ++row) {
    const float* fn = hc.fn + std::int64_t{row} * width;
    double sum = 0;
    for (int i = 0; i < width; ++i) sum += double{fn[i]} * streams[i];
    mix[static_cast<std::size_t>(row)] = sum * factor;
  }
  return mix;
}

void weighted_sum(const float* streams, const float* weights, int n_streams, int hidden_size,
                  float* x) {
  for (int i = 0; i < hidden_size; ++i) {
    double sum = 0;
    for (int s = 0; s < n_streams; ++s) sum += double{weights[s]} * streams[s * hidden_size + i];
    x[i] = static_cast<float>(sum);
  }
}

}  // namespace

void ReferenceBackend::hyper_read(const HyperConnection& hc, const float* streams,
                                  std::int64_t n_tokens, float* x, float* post, float* comb) {
  const int n = hc.n_streams;
  std::vector<float> pre(static_cast<std::size_t>(n));
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    const float* h = streams + t * n * hc.hidden_size;
    const std::vector<double> mix = project_normed(hc, h, (2 + n) * n);
    hyper_coefficients(hc, mix.data(), pre.data(), post + t * n, comb + t * n * n);
    weighted_sum(h, pre.data(), n, hc.hidden_size, x + t * hc.hidden_size);
  }
}

void ReferenceBackend::hyper_write(const HyperConnection& hc, const float* y, const float* post,
                                   const float* comb, std::int64_t n_tokens, float* streams) {
  const int n = hc.n_streams;
  const int hidden_size = hc.hidden_size;
  std::vector<double> mixed(static_cast<std::size_t>(n));
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    float* h = streams + t * n * hidden_size;
    for (int i = 0; i < hidden_size; ++i) {
      for (int dst = 0; dst < n; ++dst) {
        double sum = double{post[t * n + dst]} * y[t * hidden_size + i];
        for (int src = 0; src < n; ++src) {
          sum += double{comb[(t * n + dst) * n + src]} * h[src * hidden_size + i];
        }
        mixed[static_cast<std::size_t>(dst)] = sum;
      }
      for (int s = 0; s < n; ++s) {
        h[s * hidden_size + i] = static_cast<float>(mixed[static_cast<std::size_t>(s)]);
      }
    }
  }
}

void ReferenceBackend::hyper_head(const HyperConnection& hc, const float* streams,
                                  std::int64_t n_tokens, float* x) {
  const int n = hc.n_streams;
  std::vector<float> weights(static_cast<std::size_t>(n));
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    const float* h = streams + t * n * hc.hidden_size;
    const std::vector<double> mix = project_normed(hc, h, n);
    for (int s = 0; s < n; ++s) {
      const double logit = mix[static_cast<std::size_t>(s)] * hc.scale[0] + hc.base[s];
      weights[static_cast<std::size_t>(s)] =
          static_cast<float>(1.0 / (1.0 + std::exp(-logit)) + hc.hc_eps);
    }
    weighted_sum(h, weights.data(), n, hc.hidden_size, x + t * hc.hidden_size);
  }
}

}  // namespace engramd::kernels
