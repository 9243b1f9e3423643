// Engram of the CPU backend: decoding table rows, the gate per stream, the short convolution.
#include <array>
#include <cmath>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/scalar_math.h"
#include "kernels/number_formats.h"

namespace engramd::kernels {

namespace {

// All 256 codes: 1 KiB that stays in the first-level cache, and no subnormal arithmetic.
const std::array<float, 256>& e4m3_values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> table{};
    for (int code = 0; code < 256; ++code) {
      table[static_cast<std::size_t>(code)] = decode_e4m3(static_cast<std::uint8_t>(code));
    }
    return table;
  }();
  return values;
}

// e4m3 with an e8m0 scale per block: the codec of the tables that ship.
void decode_blocks(const RowBytes& row, std::int64_t width, float* out) {
  const std::array<float, 256>& values = e4m3_values();
  for (std::int64_t begin = 0; begin < width; begin += kScaleBlock) {
    const float scale = decode_e8m0(row.scales[begin / kScaleBlock]);
    const std::int64_t end = std::min<std::int64_t>(begin + kScaleBlock, width);
    for (std::int64_t i = begin; i < end; ++i) out[i] = values[row.codes[i]] * scale;
  }
}

float signed_root_sigmoid(float x, bool signed_zero) {
  if (x == 0 && !signed_zero) return 0.5F;
  const float root = std::sqrt(std::max(std::fabs(x), static_cast<float>(kGateRootFloor)));
  return 1.0F / (1.0F + std::exp(-std::copysign(root, x)));
}

}  // namespace

void CpuBackend::engram_gather(const RowFormat& format, const RowBytes* rows, std::int64_t n_tokens,
                               int n_columns, float* out) {
  const std::int64_t width = format.n_columns;
  for_each_token(n_tokens, [&](std::int64_t t) {
    for (std::int64_t i = t * n_columns; i < (t + 1) * n_columns; ++i) {
      if (format.codec == RowCodec::kF8E4M3E8M0) {
        decode_blocks(rows[i], width, out + i * width);
      } else {
        decode_row(format, rows[i], out + i * width);
      }
    }
  });
}

void CpuBackend::engram_update(const EngramGate& gate, const float* key, const float* value,
                               std::span<const TokenSlot> slots, const PagedCache& history,
                               const std::uint8_t* enabled, float* streams,
                               const EngramGateTrace& trace) {
  const int n = gate.n_streams;
  const std::int64_t width = gate.hidden_size;
  const std::int64_t update_width = n * width;
  const std::int64_t hidden_width = gate.one_hidden_state ? width : update_width;
  const std::int64_t hidden_step = gate.one_hidden_state ? 0 : width;  // from stream to stream
  const bool convolves = gate.conv != nullptr;
  ENGRAMD_ASSERT(!convolves || (history.dtype == DType::kF32 && gate.kernel_size <= kTapsMax));
  auto* z = static_cast<float*>(history.data);
  const auto n_tokens = static_cast<std::int64_t>(slots.size());
  grow(updates_, n_tokens * update_width);
  const float root_width = std::sqrt(static_cast<float>(width));
  for_each_token(n_tokens, [&](std::int64_t t) {
    const float* v = value + t * width;
    if (trace.value_norm != nullptr) {
      trace.value_norm[t] = std::sqrt(vector_->sum_of_squares(v, width));
    }
    for (int s = 0; s < n; ++s) {
      const std::int64_t at = t * update_width + s * width;
      const std::int64_t norms = s * width;
      const float* h = streams + t * hidden_width + s * hidden_step;
      const float dot = vector_->dot_weighted(key + at, gate.key_norm + norms, h,
                                              gate.query_norm + norms, width) *
                        inverse_rms(*vector_, key + at, width, gate.rms_norm_eps) *
                        inverse_rms(*vector_, h, width, gate.rms_norm_eps) / root_width;
      const float g = signed_root_sigmoid(dot, gate.signed_zero);
      float* update = updates_.data() + at;
      vector_->weighted_sum(v, &g, 1, width, update);
      if (trace.gate != nullptr) trace.gate[t * n + s] = g;
      if (trace.dot != nullptr) trace.dot[t * n + s] = dot;
      if (!convolves) continue;
      vector_->scale_by(
          update, inverse_rms(*vector_, update, width, gate.conv_norm_eps), gate.conv_norm + norms,
          width, z + history.entry(slots[static_cast<std::size_t>(t)]) * update_width + norms);
    }
  });
  for_each_token(n_tokens, [&](std::int64_t t) {
    float* update = updates_.data() + t * update_width;
    if (convolves) {
      const TokenSlot& slot = slots[static_cast<std::size_t>(t)];
      const float* taps[kTapsMax];
      for (int j = 0; j < gate.kernel_size; ++j) {
        const std::int32_t position = slot.position - j * gate.dilation;
        taps[j] =
            position < 0 ? nullptr : z + history.entry(slot.sequence, position) * update_width;
      }
      vector_->convolve(gate.conv, taps, gate.kernel_size, update_width, update);
    }
    float* h = streams + t * hidden_width;
    if (trace.residual_share != nullptr) {
      for (int s = 0; s < n; ++s) {
        trace.residual_share[t * n + s] =
            std::sqrt(vector_->sum_of_squares(update + s * width, width) /
                      vector_->sum_of_squares(h + s * hidden_step, width));
      }
    }
    if (enabled[t] == 0) return;
    for (int s = 0; s < n; ++s) vector_->add(update + s * width, width, h + s * hidden_step);
  });
}

}  // namespace engramd::kernels
