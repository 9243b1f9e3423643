// Engram on the device: N-grams to rows, rows to values, the gate and the short convolution.
// Formulas: arXiv 2601.07372; the variants are those of kernels/backend.h.
#pragma once

#include <bit>
#include <cmath>

#include "kernels/cuda/dense.cuh"
#include "kernels/cuda/execution.h"
#include "kernels/cuda/paged_cache.cuh"
#include "kernels/cuda/reductions.cuh"
#include "kernels/limits.h"
#include "kernels/number_formats.h"
#include "kernels/row_format.h"

namespace engramd::kernels::cuda {

// One thread per (position, column). The products wrap in 64 bits, and the remainder is that of the
// signed value, rounded down. `classes` starts `n_before` positions before the first one asked for,
// so that a decode step needs no more than its look-back.
struct EngramHashKernel {
  using Shared = NoShared;
  static constexpr int kThreads = 128;
  static constexpr const char* kName = "engram_hash";

  int max_ngram_size = 2, n_heads = 1, n_before = 0;
  std::int64_t n_positions = 0;
  std::int32_t blank_class = 0;
  std::int32_t cut_class = -1;             // as a predecessor it ends history; -1: only the dead do
  bool oldest_first = false;               // engram-peft
  DeviceSpan<const std::int32_t> classes;  // [n_before + n_positions]; -1 is dead
  DeviceSpan<const std::uint64_t> multipliers;  // [max_ngram_size]
  DeviceSpan<const std::int64_t> primes;        // [n_columns], order-major then head
  DeviceSpan<const std::int64_t> offsets;       // [n_columns]
  DeviceSpan<std::int64_t> rows;                // [n_positions, n_columns]

  // How many tokens back, the current one included, may be read.
  ENGRAMD_DEVICE int n_readable(std::int64_t current) const {
    int n = 0;
    for (; n < max_ngram_size && n <= current; ++n) {
      const std::int32_t id = classes[current - n];
      if (id < 0 || (n > 0 && id == cut_class)) break;
    }
    return n;
  }

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared&) const {
    const int n_columns = (max_ngram_size - 1) * n_heads;
    const std::int64_t first = thread.block_x() * kThreads;
    const std::int64_t left = n_positions * n_columns - first;
    for (const int i : thread.strided(static_cast<int>(left < kThreads ? left : kThreads))) {
      const std::int64_t cell = first + i;
      const auto column = static_cast<int>(cell % n_columns);
      const std::int64_t current = n_before + cell / n_columns;
      const int present = n_readable(current);
      const int order = 2 + column / n_heads;
      std::uint64_t mix = 0;
      for (int slot = 0; slot < order; ++slot) {
        const int back = oldest_first ? max_ngram_size - 1 - slot : slot;
        const std::int32_t id = back < present ? classes[current - back] : blank_class;
        mix ^= static_cast<std::uint64_t>(static_cast<std::int64_t>(id)) * multipliers[slot];
      }
      const std::int64_t remainder = static_cast<std::int64_t>(mix) % primes[column];
      rows[cell] = (remainder < 0 ? remainder + primes[column] : remainder) + offsets[column];
    }
  }
};

// Where the bytes of one row lie, and which places of the output want it.
struct RowUse {
  std::int64_t codes = 0, scales = 0;          // in bytes, from the start of the row bytes
  std::int32_t first_place = 0, n_places = 0;  // in places
};

// One block per distinct row: its bytes are read once, over the bus where they lie in pinned host
// memory, and its values written to every place that wants them.
struct GatherTableRowsKernel {
  using Shared = NoShared;
  static constexpr int kThreads = 64;
  static constexpr const char* kName = "gather_table_rows";

  RowCodec codec = RowCodec::kF8E4M3E8M0;
  int n_columns = 0;
  float tensor_scale = 1;
  DeviceSpan<const std::uint8_t> bytes;   // all rows
  DeviceSpan<const RowUse> uses;          // [n_rows]
  DeviceSpan<const std::int32_t> places;  // rows of out, by use
  DeviceSpan<float> out;                  // [.., n_columns]

  ENGRAMD_DEVICE std::uint32_t word(std::int64_t at, int n_bytes) const {
    std::uint32_t value = 0;
    for (int i = 0; i < n_bytes; ++i) {
      value |= static_cast<std::uint32_t>(bytes[at + i]) << (8 * i);
    }
    return value;
  }
  static ENGRAMD_DEVICE float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

  ENGRAMD_DEVICE float decode(const RowUse& use, int column) const {
    switch (codec) {
      case RowCodec::kF32:
        return float_of(word(use.codes + 4 * std::int64_t{column}, 4));
      case RowCodec::kF16:
        return decode_f16(
            static_cast<std::uint16_t>(word(use.codes + 2 * std::int64_t{column}, 2)));
      case RowCodec::kBF16:
        return decode_bf16(
            static_cast<std::uint16_t>(word(use.codes + 2 * std::int64_t{column}, 2)));
      case RowCodec::kF8E4M3:
        return decode_e4m3(bytes[use.codes + column]);
      case RowCodec::kF8E4M3TensorScale:
        return decode_e4m3(bytes[use.codes + column]) * tensor_scale;
      case RowCodec::kF8E4M3E8M0:
        return decode_e4m3(bytes[use.codes + column]) *
               decode_e8m0(bytes[use.scales + column / kScaleBlock]);
      default:
        return static_cast<float>(static_cast<std::int8_t>(bytes[use.codes + column])) *
               float_of(word(use.scales, 4));
    }
  }

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared&) const {
    const RowUse use = uses[thread.block_x()];
    for (const int i : thread.strided(n_columns)) {
      const float value = decode(use, i);
      for (int p = 0; p < use.n_places; ++p) {
        out[std::int64_t{places[use.first_place + p]} * n_columns + i] = value;
      }
    }
  }
};

struct EngramGateShape {
  int n_streams = 1, hidden_size = 0;
  float rms_norm_eps = 0, conv_norm_eps = 0;
  int kernel_size = 4, dilation = 3;
  bool convolves = true, signed_zero = false, one_hidden_state = false;

  // The hidden state that a stream of a token reads.
  ENGRAMD_DEVICE std::int64_t hidden_at(std::int64_t token, int stream) const {
    return one_hidden_state ? token * hidden_size : (token * n_streams + stream) * hidden_size;
  }
};

// One block per (token, stream): the gate, update = gate * value, and the convolution's input into
// the history.
struct EngramGateKernel {
  using Shared = BlockScratch;
  static constexpr int kThreads = 128;
  static constexpr const char* kName = "engram_gate";

  EngramGateShape shape;
  DeviceSpan<const float> key_norm, query_norm, conv_norm;  // [n_streams, D]
  DeviceSpan<const float> key;                              // [n_tokens, n_streams, D]
  DeviceSpan<const float> value;                            // [n_tokens, D]
  DeviceSpan<const float> streams;  // [n_tokens, n_streams, D], or [n_tokens, D]
  DeviceSpan<const TokenSlot> slots;
  DeviceCache history;            // of n_streams * D floats
  DeviceSpan<float> updates;      // [n_tokens, n_streams, D]
  DeviceSpan<float> gates, dots;  // [n_tokens, n_streams], or empty
  DeviceSpan<float> value_norms;  // [n_tokens], or empty

  ENGRAMD_DEVICE float gate_of(float dot) const {
    if (dot == 0 && !shape.signed_zero) return 0.5F;
    const float root = std::sqrt(std::fmax(std::fabs(dot), 1e-6F));  // floor of the public demo
    return device_sigmoid(std::copysign(root, dot));
  }

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared& shared) const {
    const std::int64_t token = thread.block_x();
    const int stream = thread.block_y();
    const int width = shape.hidden_size;
    const std::int64_t cell = token * shape.n_streams + stream;
    const DeviceSpan<const float> k = key.from(cell * width);
    const DeviceSpan<const float> h = streams.from(shape.hidden_at(token, stream));
    const DeviceSpan<const float> v = value.from(token * width);
    const std::int64_t norms = std::int64_t{stream} * width;
    float key_square = 0, hidden_square = 0, value_square = 0, dot = 0;
    for (const int i : thread.strided(width)) {
      key_square += k[i] * k[i];
      hidden_square += h[i] * h[i];
      value_square += v[i] * v[i];
      dot += k[i] * key_norm[norms + i] * (h[i] * query_norm[norms + i]);
    }
    const auto n = static_cast<float>(width);
    key_square = block_sum(thread, shared, key_square);
    hidden_square = block_sum(thread, shared, hidden_square);
    value_square = block_sum(thread, shared, value_square);
    dot = block_sum(thread, shared, dot) / std::sqrt(key_square / n + shape.rms_norm_eps) /
          std::sqrt(hidden_square / n + shape.rms_norm_eps) / std::sqrt(n);
    const float gate = gate_of(dot);
    // The mean square of gate * value is that of value times gate^2.
    const float z_factor = 1.0F / std::sqrt(gate * gate * value_square / n + shape.conv_norm_eps);
    const std::int64_t entry =
        shape.convolves ? history.entry(slots[token].sequence, slots[token].position) : 0;
    for (const int i : thread.strided(width)) {
      const float update = gate * v[i];
      updates[cell * width + i] = update;
      if (!shape.convolves) continue;
      history.store(entry, stream * width + i, update * z_factor * conv_norm[norms + i], 1);
    }
    if (thread.index() != 0) return;
    if (!gates.empty()) gates[cell] = gate;
    if (!dots.empty()) dots[cell] = dot;
    if (!value_norms.empty() && stream == 0) value_norms[token] = std::sqrt(value_square);
  }
};

// One block per token, after every gate of the batch: update += silu(convolution), then the streams
// of enabled tokens += update.
struct EngramConvolveKernel {
  using Shared = BlockScratch;
  static constexpr int kThreads = 128;
  static constexpr const char* kName = "engram_convolve";

  EngramGateShape shape;
  DeviceSpan<const float> conv;  // [n_streams, D, kernel_size], tap kernel_size - 1 is now
  DeviceSpan<const TokenSlot> slots;
  DeviceCache history;
  DeviceSpan<const std::uint8_t> enabled;  // [n_tokens]
  DeviceSpan<float> updates;               // [n_tokens, n_streams, D]
  DeviceSpan<float> streams;               // [n_tokens, n_streams, D], or [n_tokens, D]
  DeviceSpan<float> residual_share;        // [n_tokens, n_streams], or empty

  ENGRAMD_DEVICE float convolved(const TokenSlot& slot, int channel) const {
    float sum = 0;
    for (int tap = 0; tap < shape.kernel_size; ++tap) {
      const int position = slot.position - tap * shape.dilation;
      if (position < 0) break;  // zero before the start
      sum += conv[std::int64_t{channel} * shape.kernel_size + shape.kernel_size - 1 - tap] *
             history.load(history.entry(slot.sequence, position), channel);
    }
    return sum;
  }

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared& shared) const {
    const std::int64_t token = thread.block_x();
    const int width = shape.hidden_size;
    for (int stream = 0; stream < shape.n_streams; ++stream) {
      const std::int64_t cell = token * shape.n_streams + stream;
      const DeviceSpan<float> h = streams.from(shape.hidden_at(token, stream));
      float update_square = 0, hidden_square = 0;
      for (const int i : thread.strided(width)) {
        float update = updates[cell * width + i];
        if (shape.convolves) {
          const float c = convolved(slots[token], stream * width + i);
          update += c * device_sigmoid(c);
          updates[cell * width + i] = update;
        }
        update_square += update * update;
        hidden_square += h[i] * h[i];
      }
      if (residual_share.empty()) continue;
      update_square = block_sum(thread, shared, update_square);
      hidden_square = block_sum(thread, shared, hidden_square);
      if (thread.index() == 0) residual_share[cell] = std::sqrt(update_square / hidden_square);
    }
    if (enabled[token] == 0) return;
    for (int stream = 0; stream < shape.n_streams; ++stream) {
      const std::int64_t cell = token * shape.n_streams + stream;
      for (const int i : thread.strided(width)) {
        streams[shape.hidden_at(token, stream) + i] += updates[cell * width + i];
      }
    }
  }
};

}  // namespace engramd::kernels::cuda
