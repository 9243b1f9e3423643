// The Engram gate and its short convolution, backwards.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/reference/reference_gradients.h"
#include "kernels/cpu/scalar_gradients.h"
#include "kernels/cpu/scalar_math.h"

namespace engramd::kernels {

namespace {

double root_mean_square_factor(const double* x, int width, double eps) {
  double square = 0;
  for (int i = 0; i < width; ++i) square += x[i] * x[i];
  return 1.0 / std::sqrt(square / width + eps);
}

// One stream of one text, [n_tokens][D] each.
struct GatedStream {
  std::vector<std::vector<double>> update;  // u = gate * value
  std::vector<std::vector<double>> normed;  // z, what the convolution sees
  std::vector<std::vector<double>> grad_update;
  std::vector<double> gate, dot;
  std::vector<double> key_factor, query_factor, update_factor;
};

double tap_of(const EngramGate& gate, int stream, int channel, int tap) {
  const std::int64_t at = (std::int64_t{stream} * gate.hidden_size + channel) * gate.kernel_size;
  return gate.conv[at + gate.kernel_size - 1 - tap];
}

// grad_update: by u, from the gradient by the streams after the update.
void convolution_back(const EngramGate& gate, int stream, GatedStream& s) {
  const int width = gate.hidden_size;
  const float* norm = gate.conv_norm + std::int64_t{stream} * width;
  const auto n = static_cast<std::int64_t>(s.update.size());
  std::vector<std::vector<double>> grad_normed(
      s.update.size(), std::vector<double>(static_cast<std::size_t>(width), 0.0));
  for (std::int64_t t = 0; t < n; ++t) {
    for (int c = 0; c < width; ++c) {
      const auto channel = static_cast<std::size_t>(c);
      double y = 0;
      for (int tap = 0; tap < gate.kernel_size && t >= tap * gate.dilation; ++tap) {
        y += tap_of(gate, stream, c, tap) *
             s.normed[static_cast<std::size_t>(t - tap * gate.dilation)][channel];
      }
      const double sigmoid = 1.0 / (1.0 + std::exp(-y));
      const double grad_y =
          s.grad_update[static_cast<std::size_t>(t)][channel] * sigmoid * (1 + y * (1 - sigmoid));
      for (int tap = 0; tap < gate.kernel_size && t >= tap * gate.dilation; ++tap) {
        grad_normed[static_cast<std::size_t>(t - tap * gate.dilation)][channel] +=
            tap_of(gate, stream, c, tap) * grad_y;
      }
    }
  }
  for (std::size_t t = 0; t < s.update.size(); ++t) {  // z = u * factor * norm
    const double factor = s.update_factor[t];
    double along = 0;
    for (int c = 0; c < width; ++c) {
      const auto channel = static_cast<std::size_t>(c);
      along += grad_normed[t][channel] * norm[c] * s.update[t][channel];
    }
    for (int c = 0; c < width; ++c) {
      const auto channel = static_cast<std::size_t>(c);
      s.grad_update[t][channel] += factor * grad_normed[t][channel] * norm[c] -
                                   factor * factor * factor * along / width * s.update[t][channel];
    }
  }
}

// key, streams, grad_streams: of the text's first token, all streams; value: of that token.
GatedStream gated(const EngramGate& gate, int stream, const float* key, const float* value,
                  const float* streams, const float* grad_streams, std::int64_t n_tokens) {
  const int width = gate.hidden_size;
  const std::int64_t first = std::int64_t{stream} * width;
  GatedStream s;
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    const std::int64_t at = t * gate.n_streams * width + first;
    const std::vector<double> k(key + at, key + at + width);
    const std::vector<double> h(streams + at, streams + at + width);
    s.key_factor.push_back(root_mean_square_factor(k.data(), width, gate.rms_norm_eps));
    s.query_factor.push_back(root_mean_square_factor(h.data(), width, gate.rms_norm_eps));
    double dot = 0;
    for (int i = 0; i < width; ++i) {
      const auto channel = static_cast<std::size_t>(i);
      dot += k[channel] * gate.key_norm[first + i] * h[channel] * gate.query_norm[first + i];
    }
    s.dot.push_back(dot * s.key_factor.back() * s.query_factor.back() /
                    std::sqrt(static_cast<double>(width)));
    s.gate.push_back(engram_gate(s.dot.back(), gate.signed_zero));
    auto& u = s.update.emplace_back();
    for (int i = 0; i < width; ++i) u.push_back(s.gate.back() * value[t * width + i]);
    s.update_factor.push_back(root_mean_square_factor(u.data(), width, gate.conv_norm_eps));
    s.grad_update.emplace_back(grad_streams + at, grad_streams + at + width);
    if (gate.conv == nullptr) continue;
    auto& z = s.normed.emplace_back();
    for (int i = 0; i < width; ++i) {
      z.push_back(u[static_cast<std::size_t>(i)] * s.update_factor.back() *
                  gate.conv_norm[first + i]);
    }
  }
  return s;
}

// One token of one stream, from s.grad_update to the gradients by key, value and hidden state.
void gate_back(const EngramGate& gate, int stream, const GatedStream& s, std::size_t t,
               const float* key, const float* value, const float* h, float* grad_h, float* grad_key,
               float* grad_value) {
  const int width = gate.hidden_size;
  const std::int64_t first = std::int64_t{stream} * width;
  double grad_gate = 0;
  for (int i = 0; i < width; ++i) {
    const double grad = s.grad_update[t][static_cast<std::size_t>(i)];
    grad_gate += grad * value[i];
    grad_value[i] = static_cast<float>(grad_value[i] + grad * s.gate[t]);
  }
  const double grad_dot = grad_gate * engram_gate_gradient(s.dot[t], s.gate[t]);
  const double kf = s.key_factor[t];
  const double qf = s.query_factor[t];
  const double scale = kf * qf / std::sqrt(static_cast<double>(width));
  for (int i = 0; i < width; ++i) {
    const double both = scale * gate.key_norm[first + i] * gate.query_norm[first + i];
    const double by_key = both * h[i] - kf * kf * s.dot[t] / width * key[i];
    const double by_query = both * key[i] - qf * qf * s.dot[t] / width * h[i];
    grad_key[i] = static_cast<float>(grad_dot * by_key);
    grad_h[i] = static_cast<float>(grad_h[i] + grad_dot * by_query);
  }
}

}  // namespace

void ReferenceGradients::engram_update(const EngramGate& gate, const float* key, const float* value,
                                       const float* streams, TextStarts texts, float* grad_streams,
                                       float* grad_key, float* grad_value) {
  ENGRAMD_ASSERT(!gate.one_hidden_state);
  const std::int64_t width = gate.hidden_size;
  std::fill_n(grad_value, texts.back() * width, 0.0F);
  for (std::size_t i = 0; i + 1 < texts.size(); ++i) {
    const std::int64_t first = texts[i] * gate.n_streams * width;
    for (int stream = 0; stream < gate.n_streams; ++stream) {
      GatedStream s = gated(gate, stream, key + first, value + texts[i] * width, streams + first,
                            grad_streams + first, texts[i + 1] - texts[i]);
      if (gate.conv != nullptr) convolution_back(gate, stream, s);
      for (std::int64_t t = texts[i]; t < texts[i + 1]; ++t) {
        const std::int64_t at = (t * gate.n_streams + stream) * width;
        gate_back(gate, stream, s, static_cast<std::size_t>(t - texts[i]), key + at,
                  value + t * width, streams + at, grad_streams + at, grad_key + at,
                  grad_value + t * width);
      }
    }
  }
}

}  // namespace engramd::kernels
