// Normalisation, linear products, feed-forward, routed experts and the loss, backwards.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/cpu/reference/reference_backend.h"
#include "kernels/cpu/reference/reference_gradients.h"
#include "kernels/cpu/scalar_gradients.h"
#include "kernels/cpu/scalar_math.h"
#include "kernels/number_formats.h"

namespace engramd::kernels {

namespace {

double weight_of(const Linear& linear, std::int64_t row, std::int64_t column) {
  const std::int64_t index = row * linear.in_features() + column;
  return linear.weight.dtype == DType::kF32 ? linear.weight.as<float>()[index]
                                            : decode_bf16(linear.weight.as<std::uint16_t>()[index]);
}

std::vector<double> product(const Linear& linear, const float* x) {
  std::vector<double> out;
  for (std::int64_t row = 0; row < linear.out_features(); ++row) {
    double sum = linear.bias != nullptr ? linear.bias[row] : 0.0;
    for (std::int64_t i = 0; i < linear.in_features(); ++i) sum += weight_of(linear, row, i) * x[i];
    out.push_back(sum);
  }
  return out;
}

// grad_x += W^T grad_out.
void product_back(const Linear& linear, const std::vector<double>& grad_out,
                  std::vector<double>& grad_x) {
  for (std::int64_t row = 0; row < linear.out_features(); ++row) {
    for (std::int64_t i = 0; i < linear.in_features(); ++i) {
      grad_x[static_cast<std::size_t>(i)] +=
          weight_of(linear, row, i) * grad_out[static_cast<std::size_t>(row)];
    }
  }
}

// One token of a SwiGLU, its output weighted by `factor`: adds to grad_x, returns the derivative by
// `factor`, <grad_out, output>.
double swiglu_back(const FeedForward& weights, const float* x, const float* grad_out, double factor,
                   std::vector<double>& grad_x) {
  std::vector<double> gate = product(weights.gate_proj, x);
  std::vector<double> up = product(weights.up_proj, x);
  std::vector<double> grad_hidden(gate.size(), 0.0);
  product_back(weights.down_proj, {grad_out, grad_out + weights.down_proj.out_features()},
               grad_hidden);
  double by_factor = 0;
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double sigmoid = 1.0 / (1.0 + std::exp(-gate[i]));
    const double silu = gate[i] * sigmoid;
    const double grad = grad_hidden[i] * factor;
    by_factor += grad_hidden[i] * silu * up[i];
    gate[i] = grad * up[i] * sigmoid * (1 + gate[i] * (1 - sigmoid));
    up[i] = grad * silu;
  }
  product_back(weights.gate_proj, gate, grad_x);
  product_back(weights.up_proj, up, grad_x);
  return by_factor;
}

void add_to(const std::vector<double>& values, float* out) {
  for (std::size_t i = 0; i < values.size(); ++i) out[i] = static_cast<float>(out[i] + values[i]);
}

}  // namespace

std::unique_ptr<Gradients> make_reference_gradients() {
  return std::make_unique<ReferenceGradients>();
}

void ReferenceGradients::rms_norm(const float* x, const float* weight, float eps,
                                  std::int64_t n_rows, std::int64_t width, const float* grad_out,
                                  float* grad_x) {
  for (std::int64_t row = 0; row < n_rows; ++row, x += width, grad_out += width, grad_x += width) {
    double square = 0;
    double along = 0;  // sum_i dL/dout_i weight_i x_i
    for (std::int64_t i = 0; i < width; ++i) {
      square += double{x[i]} * x[i];
      along += double{grad_out[i]} * weight[i] * x[i];
    }
    const double n = static_cast<double>(width);
    const double factor = 1.0 / std::sqrt(square / n + eps);
    for (std::int64_t i = 0; i < width; ++i) {
      const double grad =
          factor * (double{grad_out[i]} * weight[i]) - factor * factor * factor * along / n * x[i];
      grad_x[i] = static_cast<float>(grad_x[i] + grad);
    }
  }
}

void ReferenceGradients::linear(const Linear& linear, const float* grad_out, std::int64_t n_tokens,
                                float* grad_x) {
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    std::vector<double> grad(static_cast<std::size_t>(linear.in_features()), 0.0);
    const float* row = grad_out + t * linear.out_features();
    product_back(linear, {row, row + linear.out_features()}, grad);
    add_to(grad, grad_x + t * linear.in_features());
  }
}

void ReferenceGradients::feed_forward(const FeedForward& weights, const float* x,
                                      std::int64_t n_tokens, const float* grad_out, float* grad_x) {
  const std::int64_t width = weights.gate_proj.in_features();
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    std::vector<double> grad(static_cast<std::size_t>(width), 0.0);
    swiglu_back(weights, x + t * width, grad_out + t * width, 1.0, grad);
    add_to(grad, grad_x + t * width);
  }
}

void ReferenceGradients::mixture_of_experts(const MixtureOfExperts& weights, const float* x,
                                            std::int64_t n_tokens, const float* grad_out,
                                            float* grad_x) {
  const std::int64_t width = weights.gate.in_features();
  const auto k = static_cast<std::size_t>(weights.num_experts_per_tok);
  std::vector<std::int32_t> experts(k);
  std::vector<float> expert_weights(k);
  std::vector<double> grad_weights(k);
  std::vector<double> grad_logits(k);
  for (std::int64_t t = 0; t < n_tokens; ++t) {
    const float* token = x + t * width;
    std::vector<double> grad(static_cast<std::size_t>(width), 0.0);
    const std::vector<double> logits = product(weights.gate, token);
    route(weights, logits.data(), experts.data(), expert_weights.data());
    if (weights.shared != nullptr) {
      swiglu_back(*weights.shared, token, grad_out + t * width, 1.0, grad);
    }
    for (std::size_t slot = 0; slot < k; ++slot) {
      const FeedForward& expert = weights.experts[static_cast<std::size_t>(experts[slot])];
      grad_weights[slot] =
          swiglu_back(expert, token, grad_out + t * width, expert_weights[slot], grad);
    }
    route_gradient(weights, logits.data(), experts.data(), grad_weights.data(), grad_logits.data());
    for (std::size_t slot = 0; slot < k; ++slot) {
      for (std::int64_t i = 0; i < width; ++i) {
        grad[static_cast<std::size_t>(i)] +=
            grad_logits[slot] * weight_of(weights.gate, experts[slot], i);
      }
    }
    add_to(grad, grad_x + t * width);
  }
}

void ReferenceGradients::cross_entropy(float* logits, std::int64_t n_rows, std::int64_t vocab_size,
                                       const std::int32_t* targets, const float* weights,
                                       float* losses) {
  for (std::int64_t row = 0; row < n_rows; ++row, logits += vocab_size) {
    const double largest = *std::max_element(logits, logits + vocab_size);
    double sum = 0;
    for (std::int64_t i = 0; i < vocab_size; ++i) sum += std::exp(logits[i] - largest);
    losses[row] = static_cast<float>(largest + std::log(sum) - logits[targets[row]]);
    for (std::int64_t i = 0; i < vocab_size; ++i) {
      const double probability = std::exp(logits[i] - largest) / sum;
      logits[i] =
          static_cast<float>(weights[row] * (probability - (i == targets[row] ? 1.0 : 0.0)));
    }
  }
}

}  // namespace engramd::kernels
