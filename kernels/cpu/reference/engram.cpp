// Engram: rows of the table, the gate per stream, and the short causal convolution.
#include <cmath>
#include <vector>

#include "kernels/cpu/reference/reference_backend.h"
#include "kernels/cpu/scalar_math.h"

namespace engramd::kernels {

namespace {

double inverse_rms(const float* x, int width, double eps) {
  double square = 0;
  for (int i = 0; i < width; ++i) square += double{x[i]} * x[i];
  return 1.0 / std::sqrt(square / width + eps);
}

double norm(const float* x, int width) {
  double square = 0;
  for (int i = 0; i < width; ++i) square += double{x[i]} * x[i];
  return std::sqrt(square);
}

// x before the signed root: <norm(key), norm(h)> / sqrt(D).
double gate_dot(const EngramGate& gate, int stream, const float* key, const float* h) {
  const int width = gate.hidden_size;
  const double key_factor = inverse_rms(key, width, gate.rms_norm_eps);
  const double query_factor = inverse_rms(h, width, gate.rms_norm_eps);
  const float* key_norm = gate.key_norm + std::int64_t{stream} * width;
  const float* query_norm = gate.query_norm + std::int64_t{stream} * width;
  double dot = 0;
  for (int i = 0; i < width; ++i) {
    dot += key[i] * key_factor * key_norm[i] * (h[i] * query_factor * query_norm[i]);
  }
  return dot / std::sqrt(static_cast<double>(width));
}

// y = sum over taps of conv[.., kernel_size-1-j] * z at position - j * dilation. y: [D].
void convolve(const EngramGate& gate, int stream, const TokenSlot& slot, const PagedCache& history,
              std::vector<double>& y) {
  const int width = gate.hidden_size;
  std::vector<float> entry(static_cast<std::size_t>(history.width));
  std::fill(y.begin(), y.end(), 0.0);
  for (int tap = 0; tap < gate.kernel_size; ++tap) {
    const std::int32_t position = slot.position - tap * gate.dilation;
    if (position < 0) break;  // zero before the start
    load_entry(history, history.entry(slot.sequence, position), entry.data());
    for (int i = 0; i < width; ++i) {
      const std::int64_t channel = std::int64_t{stream} * width + i;
      y[static_cast<std::size_t>(i)] +=
          double{gate.conv[channel * gate.kernel_size + gate.kernel_size - 1 - tap]} *
          entry[static_cast<std::size_t>(channel)];
    }
  }
}

}  // namespace

void ReferenceBackend::engram_gather(const RowFormat& format, const RowBytes* rows,
                                     std::int64_t n_tokens, int n_columns, float* out) {
  for (std::int64_t i = 0; i < n_tokens * n_columns; ++i) {
    decode_row(format, rows[i], out + i * format.n_columns);
  }
}

void ReferenceBackend::engram_update(const EngramGate& gate, const float* key, const float* value,
                                     std::span<const TokenSlot> slots, const PagedCache& history,
                                     const std::uint8_t* enabled, float* streams,
                                     const EngramGateTrace& trace) {
  const int n = gate.n_streams;
  const int width = gate.hidden_size;
  const std::size_t update_width = static_cast<std::size_t>(n) * static_cast<std::size_t>(width);
  const auto hidden_of = [&](std::size_t t, int s) {  // the hidden state of one stream
    return gate.one_hidden_state ? streams + t * static_cast<std::size_t>(width)
                                 : streams + t * update_width + s * width;
  };
  std::vector<float> updates(slots.size() * update_width);  // u, then u + silu(y)
  std::vector<float> z(update_width);
  for (std::size_t t = 0; t < slots.size(); ++t) {
    const float* v = value + t * static_cast<std::size_t>(width);
    if (trace.value_norm != nullptr) trace.value_norm[t] = static_cast<float>(norm(v, width));
    for (int s = 0; s < n; ++s) {
      const std::size_t at = t * update_width + static_cast<std::size_t>(s * width);
      const double dot = gate_dot(gate, s, key + at, hidden_of(t, s));
      const double g = engram_gate(dot, gate.signed_zero);
      for (int i = 0; i < width; ++i) {
        updates[at + static_cast<std::size_t>(i)] = static_cast<float>(g * v[i]);
      }
      const std::size_t cell = t * static_cast<std::size_t>(n) + static_cast<std::size_t>(s);
      if (trace.gate != nullptr) trace.gate[cell] = static_cast<float>(g);
      if (trace.dot != nullptr) trace.dot[cell] = static_cast<float>(dot);
      if (gate.conv == nullptr) continue;
      rms_norm(updates.data() + at, gate.conv_norm + std::int64_t{s} * width, gate.conv_norm_eps, 1,
               width, z.data() + s * width);
    }
    if (gate.conv != nullptr) store_entry(history, history.entry(slots[t]), z.data());
  }
  std::vector<double> y(static_cast<std::size_t>(width));
  for (std::size_t t = 0; t < slots.size(); ++t) {
    float* update = updates.data() + t * update_width;
    for (int s = 0; s < n; ++s, update += width) {
      if (gate.conv != nullptr) {
        convolve(gate, s, slots[t], history, y);
        for (int i = 0; i < width; ++i) {
          const double c = y[static_cast<std::size_t>(i)];
          update[i] = static_cast<float>(update[i] + c / (1.0 + std::exp(-c)));
        }
      }
      if (trace.residual_share != nullptr) {
        trace.residual_share[t * static_cast<std::size_t>(n) + static_cast<std::size_t>(s)] =
            static_cast<float>(norm(update, width) / norm(hidden_of(t, s), width));
      }
    }
    if (enabled[t] == 0) continue;
    update = updates.data() + t * update_width;
    for (int s = 0; s < n; ++s, update += width) {
      for (int i = 0; i < width; ++i) hidden_of(t, s)[i] += update[i];
    }
  }
}

}  // namespace engramd::kernels
