#include "tests/kernels/differentiable_operations.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/scalar_math.h"
#include "kernels/number_formats.h"
#include "tests/kernels/random_weights.h"

namespace engramd::kernels::test {
namespace {

double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

double weighted(const Doubles& values, const Floats& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) sum += values[i] * weights[i];
  return sum;
}

Doubles part(const Doubles& all, std::int64_t begin, std::int64_t n) {
  return {all.begin() + begin, all.begin() + begin + n};
}

void append(Doubles& out, const Doubles& more) {
  out.insert(out.end(), more.begin(), more.end());
}

// x / sqrt(mean(x^2) + eps) * weight
Doubles normed(const Doubles& x, const float* weight, double eps) {
  double square = 0;
  for (const double v : x) square += v * v;
  const double factor = 1 / std::sqrt(square / static_cast<double>(x.size()) + eps);
  Doubles out;
  for (std::size_t i = 0; i < x.size(); ++i) {
    out.push_back(x[i] * factor * (weight != nullptr ? weight[i] : 1.0F));
  }
  return out;
}

Doubles times(const Linear& linear, const Doubles& x) {
  Doubles out;
  for (std::int64_t row = 0; row < linear.out_features(); ++row) {
    double sum = linear.bias != nullptr ? linear.bias[row] : 0.0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::int64_t at = row * linear.in_features() + static_cast<std::int64_t>(i);
      sum += x[i] * (linear.weight.dtype == DType::kF32
                         ? linear.weight.as<float>()[at]
                         : decode_bf16(linear.weight.as<std::uint16_t>()[at]));
    }
    out.push_back(sum);
  }
  return out;
}

Doubles swiglu(const FeedForward& weights, const Doubles& x) {
  Doubles hidden = times(weights.gate_proj, x);
  const Doubles up = times(weights.up_proj, x);
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    hidden[i] = hidden[i] * logistic(hidden[i]) * up[i];
  }
  return times(weights.down_proj, hidden);
}

Operation rms_norm(Random& random, std::int64_t n, std::int64_t width) {
  auto weight = std::make_shared<Floats>(random.floats(width));
  auto by_out = std::make_shared<Floats>(random.floats(n * width));
  return {"rms_norm",
          {random.floats(n * width)},
          [=](const std::vector<Doubles>& in) {
            Doubles out;
            for (std::int64_t t = 0; t < n; ++t) {
              append(out, normed(part(in[0], t * width, width), weight->data(), 1e-3F));
            }
            return weighted(out, *by_out);
          },
          [=](Gradients& g, const std::vector<Floats>& in) {
            Floats grad(in[0].size());
            g.rms_norm(in[0].data(), weight->data(), 1e-3F, n, width, by_out->data(), grad.data());
            return std::vector<Floats>{grad};
          }};
}

Operation linear(Random& random, std::int64_t n, std::int64_t out_features,
                 std::int64_t in_features) {
  auto matrix = std::make_shared<Matrix>(random, out_features, in_features, true);
  auto by_out = std::make_shared<Floats>(random.floats(n * out_features));
  return {"linear",
          {random.floats(n * in_features)},
          [=](const std::vector<Doubles>& in) {
            Doubles out;
            for (std::int64_t t = 0; t < n; ++t) {
              append(out, times(matrix->linear, part(in[0], t * in_features, in_features)));
            }
            return weighted(out, *by_out);
          },
          [=](Gradients& g, const std::vector<Floats>& in) {
            Floats grad(in[0].size());
            g.linear(matrix->linear, by_out->data(), n, grad.data());
            return std::vector<Floats>{grad};
          }};
}

// Everything a sublayer's mixing needs.
struct Mixing {
  Mixing(Random& random, int n, int width)
      : fn(random.floats(std::int64_t{2 + n} * n * n * width, 0.2F)),
        base(random.floats((2 + n) * n)),
        scale(random.floats(3)),
        hc{n, width, 4, 1e-3F, 1e-3F, fn.data(), base.data(), scale.data()} {}
  Floats fn, base, scale;
  HyperConnection hc;
};

Doubles mix_of(const HyperConnection& hc, const Doubles& h, int n_rows) {
  const Doubles x = normed(h, nullptr, hc.rms_norm_eps);
  Doubles mix;
  for (int row = 0; row < n_rows; ++row) {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum += hc.fn[static_cast<std::size_t>(row) * x.size() + i] * x[i];
    }
    mix.push_back(sum);
  }
  return mix;
}

// [n, n] as [dst][src], doubly stochastic.
Doubles comb_of(const HyperConnection& hc, const Doubles& mix) {
  const int n = hc.n_streams;
  const auto at = [n](int dst, int src) { return static_cast<std::size_t>(dst * n + src); };
  Doubles c(static_cast<std::size_t>(n * n));
  for (int dst = 0; dst < n; ++dst) {
    double sum = 0;
    for (int src = 0; src < n; ++src) {
      const auto i = static_cast<std::size_t>(2 * n + dst * n + src);
      sum += c[at(dst, src)] = std::exp(mix[i] * hc.scale[2] + hc.base[i]);
    }
    for (int src = 0; src < n; ++src) c[at(dst, src)] = c[at(dst, src)] / sum + hc.hc_eps;
  }
  for (int step = 0; step < 2 * hc.sinkhorn_iterations - 1; ++step) {
    const bool by_rows = step % 2 == 1;
    for (int line = 0; line < n; ++line) {
      double sum = hc.hc_eps;
      for (int i = 0; i < n; ++i) sum += by_rows ? c[at(line, i)] : c[at(i, line)];
      for (int i = 0; i < n; ++i) (by_rows ? c[at(line, i)] : c[at(i, line)]) /= sum;
    }
  }
  return c;
}

Doubles combined(const HyperConnection& hc, const Doubles& h, const Doubles& weights) {
  Doubles x(static_cast<std::size_t>(hc.hidden_size), 0.0);
  for (std::size_t s = 0; s < weights.size(); ++s) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += weights[s] * h[s * x.size() + i];
  }
  return x;
}

Operation hyper_read(Random& random, std::int64_t n_tokens, int n, int width) {
  auto mixing = std::make_shared<Mixing>(random, n, width);
  auto by_x = std::make_shared<Floats>(random.floats(n_tokens * width));
  auto by_post = std::make_shared<Floats>(random.floats(n_tokens * n));
  auto by_comb = std::make_shared<Floats>(random.floats(n_tokens * n * n));
  return {"hyper_read",
          {random.floats(n_tokens * n * width)},
          [=](const std::vector<Doubles>& in) {
            const HyperConnection& hc = mixing->hc;
            Doubles x, post, comb;
            for (std::int64_t t = 0; t < n_tokens; ++t) {
              const Doubles h = part(in[0], t * n * width, std::int64_t{n} * width);
              const Doubles mix = mix_of(hc, h, (2 + n) * n);
              Doubles pre;
              for (int s = 0; s < n; ++s) {
                const auto i = static_cast<std::size_t>(s);
                const auto j = static_cast<std::size_t>(n + s);
                pre.push_back(logistic(mix[i] * hc.scale[0] + hc.base[i]) + hc.hc_eps);
                post.push_back(2 * logistic(mix[j] * hc.scale[1] + hc.base[j]));
              }
              append(x, combined(hc, h, pre));
              append(comb, comb_of(hc, mix));
            }
            return weighted(x, *by_x) + weighted(post, *by_post) + weighted(comb, *by_comb);
          },
          [=](Gradients& g, const std::vector<Floats>& in) {
            Floats grad(in[0].size());
            g.hyper_read(mixing->hc, in[0].data(), n_tokens, by_x->data(), by_post->data(),
                         by_comb->data(), grad.data());
            return std::vector<Floats>{grad};
          }};
}

Operation hyper_write(Random& random, std::int64_t n_tokens, int n, int width) {
  auto mixing = std::make_shared<Mixing>(random, n, width);
  auto by_out = std::make_shared<Floats>(random.floats(n_tokens * n * width));
  return {"hyper_write",
          {random.floats(n_tokens * n * width), random.floats(n_tokens * width),
           random.floats(n_tokens * n), random.floats(n_tokens * n * n)},
          [=](const std::vector<Doubles>& in) {
            double sum = 0;
            for (std::int64_t t = 0; t < n_tokens; ++t) {
              for (int dst = 0; dst < n; ++dst) {
                for (int i = 0; i < width; ++i) {
                  double out = in[2][static_cast<std::size_t>(t * n + dst)] *
                               in[1][static_cast<std::size_t>(t * width + i)];
                  for (int src = 0; src < n; ++src) {
                    out += in[3][static_cast<std::size_t>((t * n + dst) * n + src)] *
                           in[0][static_cast<std::size_t>((t * n + src) * width + i)];
                  }
                  sum += out * (*by_out)[static_cast<std::size_t>((t * n + dst) * width + i)];
                }
              }
            }
            return sum;
          },
          [=](Gradients& g, const std::vector<Floats>& in) {
            std::vector<Floats> grad{*by_out, Floats(in[1].size()), Floats(in[2].size()),
                                     Floats(in[3].size())};
            g.hyper_write(mixing->hc, in[0].data(), in[1].data(), in[2].data(), in[3].data(),
                          n_tokens, grad[0].data(), grad[1].data(), grad[2].data(), grad[3].data());
            return grad;
          }};
}

Operation hyper_head(Random& random, std::int64_t n_tokens, int n, int width) {
  auto mixing = std::make_shared<Mixing>(random, n, width);
  auto by_x = std::make_shared<Floats>(random.floats(n_tokens * width));
  return {"hyper_head",
          {random.floats(n_tokens * n * width)},
          [=](const std::vector<Doubles>& in) {
            const HyperConnection& hc = mixing->hc;
            Doubles x;
            for (std::int64_t t = 0; t < n_tokens; ++t) {
              const Doubles h = part(in[0], t * n * width, std::int64_t{n} * width);
              Doubles weights = mix_of(hc, h, n);
              for (std::size_t s = 0; s < weights.size(); ++s) {
                weights[s] = logistic(weights[s] * hc.scale[0] + hc.base[s]) + hc.hc_eps;
              }
              append(x, combined(hc, h, weights));
            }
            return weighted(x, *by_x);
          },
          [=](Gradients& g, const std::vector<Floats>& in) {
            Floats grad(in[0].size());
            g.hyper_head(mixing->hc, in[0].data(), n_tokens, by_x->data(), grad.data());
            return std::vector<Floats>{grad};
          }};
}

struct Attention {
  Attention(Random& random, int heads) : norm(random.floats(9)), kv_b(random, heads * 11, 9) {
    attention.num_attention_heads = heads;
    attention.qk_nope_head_dim = 6;
    attention.qk_rope_head_dim = 4;
    attention.v_head_dim = 5;
    attention.kv_lora_rank = 9;
    attention.rms_norm_eps = 1e-3F;
    attention.rope_theta = 100;
    attention.kv_a_layernorm = norm.data();
    attention.kv_b_proj = kv_b.linear.weight;
  }
  Floats norm;
  Matrix kv_b;
  LatentAttention attention;
};

void rotate(Doubles& x, std::size_t begin, int width, std::int64_t position, double theta) {
  for (int i = 0; i < width; i += 2) {
    const double angle = static_cast<double>(position) * std::pow(theta, -double(i) / width);
    const std::size_t at = begin + static_cast<std::size_t>(i);
    const double a = x[at];
    const double b = x[at + 1];
    x[at] = a * std::cos(angle) - b * std::sin(angle);
    x[at + 1] = a * std::sin(angle) + b * std::cos(angle);
  }
}

// One text; query: [n, query_width], latent: [n, latent_width].
Doubles attended(const Attention& a, const Doubles& query, const Doubles& latent) {
  const LatentAttention& c = a.attention;
  const std::int64_t n = static_cast<std::int64_t>(latent.size()) / c.latent_width();
  const int width = c.qk_nope_head_dim + c.qk_rope_head_dim;
  std::vector<Doubles> expanded, key_rope;
  for (std::int64_t t = 0; t < n; ++t) {
    const Doubles row = part(latent, t * c.latent_width(), c.latent_width());
    expanded.push_back(times(
        a.kv_b.linear, normed(part(row, 0, c.kv_lora_rank), c.kv_a_layernorm, c.rms_norm_eps)));
    key_rope.push_back(part(row, c.kv_lora_rank, c.qk_rope_head_dim));
    rotate(key_rope.back(), 0, c.qk_rope_head_dim, t, c.rope_theta);
  }
  Doubles out;
  for (std::int64_t t = 0; t < n; ++t) {
    for (int head = 0; head < c.num_attention_heads; ++head) {
      const auto first = static_cast<std::size_t>(head * (c.qk_nope_head_dim + c.v_head_dim));
      Doubles q = part(query, t * c.query_width() + head * width, width);
      rotate(q, static_cast<std::size_t>(c.qk_nope_head_dim), c.qk_rope_head_dim, t, c.rope_theta);
      Doubles value(static_cast<std::size_t>(c.v_head_dim), 0.0);
      double total = 0;
      for (std::size_t s = 0; s <= static_cast<std::size_t>(t); ++s) {
        double score = 0;
        for (std::size_t i = 0; i < q.size(); ++i) {
          const auto nope = static_cast<std::size_t>(c.qk_nope_head_dim);
          score += q[i] * (i < nope ? expanded[s][first + i] : key_rope[s][i - nope]);
        }
        const double p = std::exp(score / std::sqrt(static_cast<double>(width)));
        total += p;
        for (std::size_t i = 0; i < value.size(); ++i) {
          value[i] += p * expanded[s][first + static_cast<std::size_t>(c.qk_nope_head_dim) + i];
        }
      }
      for (const double v : value) out.push_back(v / total);
    }
  }
  return out;
}

Operation latent_attention(Random& random, const std::vector<std::int64_t>& starts, int heads) {
  auto a = std::make_shared<Attention>(random, heads);
  const std::int64_t n = starts.back();
  auto by_out = std::make_shared<Floats>(random.floats(n * a->attention.output_width()));
  return {"latent_attention",
          {random.floats(n * a->attention.query_width(), 2),
           random.floats(n * a->attention.latent_width())},
          [=](const std::vector<Doubles>& in) {
            Doubles out;
            for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
              const auto slice = [&](const Doubles& x, int width) {
                return part(x, starts[i] * width, (starts[i + 1] - starts[i]) * width);
              };
              append(out, attended(*a, slice(in[0], a->attention.query_width()),
                                   slice(in[1], a->attention.latent_width())));
            }
            return weighted(out, *by_out);
          },
          [=](Gradients& g, const std::vector<Floats>& in) {
            std::vector<Floats> grad{Floats(in[0].size()), Floats(in[1].size())};
            g.latent_attention(a->attention, in[0].data(), in[1].data(), starts, by_out->data(),
                               grad[0].data(), grad[1].data());
            return grad;
          }};
}

struct Experts {
  static constexpr int kExperts = 5;
  Experts(Random& random, std::int64_t width, std::int64_t intermediate)
      : gate(random.floats(kExperts * width, 0.5F)), bias(random.floats(kExperts, 0.1F)) {
    for (int e = 0; e <= kExperts; ++e) {
      matrices.emplace_back(random, intermediate, width);
      matrices.emplace_back(random, intermediate, width);
      matrices.emplace_back(random, width, intermediate);
    }
    for (std::size_t e = 0; e < matrices.size(); e += 3) {
      experts.push_back({matrices[e].linear, matrices[e + 1].linear, matrices[e + 2].linear});
    }
    weights.num_experts_per_tok = 3;
    weights.routed_scaling_factor = 2.5F;
    weights.gate.weight = {gate.data(), DType::kF32, 2, {kExperts, width}};
    weights.e_score_correction_bias = bias.data();
    weights.experts = {experts.data(), kExperts};
    weights.shared = &experts.back();
  }
  Floats gate, bias;
  std::vector<Matrix> matrices;
  std::vector<FeedForward> experts;
  MixtureOfExperts weights;
};

Operation mixture_of_experts(Random& random, std::int64_t n, std::int64_t width,
                             std::int64_t intermediate, bool norm_topk_prob) {
  auto e = std::make_shared<Experts>(random, width, intermediate);
  e->weights.norm_topk_prob = norm_topk_prob;
  auto by_out = std::make_shared<Floats>(random.floats(n * width));
  return {"mixture_of_experts",
          {random.floats(n * width)},
          [=](const std::vector<Doubles>& in) {
            Doubles out;
            for (std::int64_t t = 0; t < n; ++t) {
              const Doubles x = part(in[0], t * width, width);
              const Doubles logits = times(e->weights.gate, x);
              std::int32_t chosen[3];
              float unused[3];
              route(e->weights, logits.data(), chosen, unused);
              double sum = 1e-20;
              for (const std::int32_t i : chosen) sum += logistic(logits[std::size_t(i)]);
              Doubles y = swiglu(*e->weights.shared, x);
              for (const std::int32_t i : chosen) {
                const double weight = logistic(logits[std::size_t(i)]) *
                                      e->weights.routed_scaling_factor /
                                      (norm_topk_prob ? sum : 1.0);
                const Doubles output = swiglu(e->experts[std::size_t(i)], x);
                for (std::size_t j = 0; j < y.size(); ++j) y[j] += weight * output[j];
              }
              append(out, y);
            }
            return weighted(out, *by_out);
          },
          [=](Gradients& g, const std::vector<Floats>& in) {
            Floats grad(in[0].size());
            g.mixture_of_experts(e->weights, in[0].data(), n, by_out->data(), grad.data());
            return std::vector<Floats>{grad};
          }};
}

Operation feed_forward(Random& random, std::int64_t n, std::int64_t width,
                       std::int64_t intermediate) {
  auto e = std::make_shared<Experts>(random, width, intermediate);
  auto by_out = std::make_shared<Floats>(random.floats(n * width));
  return {"feed_forward",
          {random.floats(n * width)},
          [=](const std::vector<Doubles>& in) {
            Doubles out;
            for (std::int64_t t = 0; t < n; ++t) {
              append(out, swiglu(e->experts[0], part(in[0], t * width, width)));
            }
            return weighted(out, *by_out);
          },
          [=](Gradients& g, const std::vector<Floats>& in) {
            Floats grad(in[0].size());
            g.feed_forward(e->experts[0], in[0].data(), n, by_out->data(), grad.data());
            return std::vector<Floats>{grad};
          }};
}

struct Gate {
  Gate(Random& random, int n, int width, bool convolves)
      : key_norm(random.floats(n * width)),
        query_norm(random.floats(n * width)),
        conv_norm(random.floats(n * width)),
        conv(random.floats(std::int64_t{n} * width * 4)) {
    gate.n_streams = n;
    gate.hidden_size = width;
    gate.rms_norm_eps = 1e-3F;
    gate.key_norm = key_norm.data();
    gate.query_norm = query_norm.data();
    gate.conv_norm_eps = 1e-2F;
    gate.conv_norm = conv_norm.data();
    gate.conv = convolves ? conv.data() : nullptr;
  }
  Floats key_norm, query_norm, conv_norm, conv;
  EngramGate gate;
};

// One stream of one text, [n_tokens][D] each: the streams after the update.
Doubles updated(const EngramGate& gate, int stream, const std::vector<Doubles>& key,
                const std::vector<Doubles>& value, const std::vector<Doubles>& h) {
  const auto width = static_cast<std::size_t>(gate.hidden_size);
  const std::size_t first = static_cast<std::size_t>(stream) * width;
  std::vector<Doubles> u, z;
  for (std::size_t t = 0; t < h.size(); ++t) {
    const Doubles k = normed(key[t], gate.key_norm + first, gate.rms_norm_eps);
    const Doubles q = normed(h[t], gate.query_norm + first, gate.rms_norm_eps);
    double dot = 0;
    for (std::size_t i = 0; i < width; ++i) dot += k[i] * q[i];
    dot /= std::sqrt(static_cast<double>(width));
    const double g = logistic(std::copysign(std::sqrt(std::max(std::fabs(dot), 1e-6)), dot));
    u.emplace_back();
    for (const double v : value[t]) u.back().push_back(g * v);
    if (gate.conv != nullptr) {
      z.push_back(normed(u.back(), gate.conv_norm + first, gate.conv_norm_eps));
    }
  }
  Doubles out;
  for (std::size_t t = 0; t < h.size(); ++t) {
    for (std::size_t c = 0; c < width; ++c) {
      double y = 0;
      for (std::size_t tap = 0; tap < 4 && gate.conv != nullptr && t >= 3 * tap; ++tap) {
        y += gate.conv[(first + c) * 4 + 3 - tap] * z[t - 3 * tap][c];
      }
      out.push_back(h[t][c] + u[t][c] + y * logistic(y));
    }
  }
  return out;
}

Operation engram_update(Random& random, const std::vector<std::int64_t>& starts, int n, int width,
                        bool convolves) {
  auto gate = std::make_shared<Gate>(random, n, width, convolves);
  const std::int64_t n_tokens = starts.back();
  auto by_out = std::make_shared<Floats>(random.floats(n_tokens * n * width));
  return {convolves ? "engram_update" : "engram_update without convolution",
          {random.floats(n_tokens * n * width), random.floats(n_tokens * width),
           random.floats(n_tokens * n * width)},
          [=](const std::vector<Doubles>& in) {
            double sum = 0;
            for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
              for (int s = 0; s < n; ++s) {
                std::vector<Doubles> key, value, h;
                Floats by;
                for (std::int64_t t = starts[i]; t < starts[i + 1]; ++t) {
                  key.push_back(part(in[0], (t * n + s) * width, width));
                  value.push_back(part(in[1], t * width, width));
                  h.push_back(part(in[2], (t * n + s) * width, width));
                  by.insert(by.end(), by_out->begin() + (t * n + s) * width,
                            by_out->begin() + (t * n + s + 1) * width);
                }
                sum += weighted(updated(gate->gate, s, key, value, h), by);
              }
            }
            return sum;
          },
          [=](Gradients& g, const std::vector<Floats>& in) {
            std::vector<Floats> grad{Floats(in[0].size()), Floats(in[1].size()), *by_out};
            g.engram_update(gate->gate, in[0].data(), in[1].data(), in[2].data(), starts,
                            grad[2].data(), grad[0].data(), grad[1].data());
            return grad;
          }};
}

Operation cross_entropy(Random& random, std::int64_t n, std::int64_t vocab_size) {
  auto weights = std::make_shared<Floats>(random.floats(n));
  auto targets = std::make_shared<std::vector<std::int32_t>>();
  for (std::int64_t i = 0; i < n; ++i) {
    targets->push_back(static_cast<std::int32_t>(random.below(vocab_size)));
  }
  return {"cross_entropy",
          {random.floats(n * vocab_size, 2)},
          [=](const std::vector<Doubles>& in) {
            double sum = 0;
            for (std::int64_t t = 0; t < n; ++t) {
              const Doubles logits = part(in[0], t * vocab_size, vocab_size);
              double total = 0;
              for (const double v : logits) total += std::exp(v);
              const auto i = static_cast<std::size_t>(t);
              sum += (*weights)[i] *
                     (std::log(total) - logits[static_cast<std::size_t>((*targets)[i])]);
            }
            return sum;
          },
          [=](Gradients& g, const std::vector<Floats>& in) {
            Floats logits = in[0];
            Floats losses(static_cast<std::size_t>(n));
            g.cross_entropy(logits.data(), n, vocab_size, targets->data(), weights->data(),
                            losses.data());
            return std::vector<Floats>{logits};
          }};
}

}  // namespace

std::vector<Operation> differentiable_operations(int size) {
  Random random;
  const std::int64_t n = 3 + 5 * size;      // tokens
  const int width = 6 + 13 * size;          // of the hidden state
  const std::int64_t wide = 7 + 70 * size;  // of what is wider
  const std::vector<std::int64_t> starts{0, 4 + 3 * size, 5 + 3 * size, 13 + 30 * size};
  return {rms_norm(random, n, width),
          linear(random, n, wide, width),
          linear(random, n, width, wide),
          hyper_read(random, n, 2, width),
          hyper_read(random, n, 4, width),
          hyper_write(random, n, 3, width),
          hyper_head(random, n, 2, width),
          latent_attention(random, starts, 1 + size),
          feed_forward(random, n, width, wide),
          mixture_of_experts(random, n, width, wide, true),
          mixture_of_experts(random, n, width, wide, false),
          engram_update(random, starts, 2, width, true),
          engram_update(random, starts, 2, width, false),
          cross_entropy(random, n, wide)};
}

}  // namespace engramd::kernels::test
