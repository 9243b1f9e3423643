// Products with weights: out[cell] = W[group of the cell] x[cell] + bias. A group is an expert, a
// head, or the one group of an ordinary product. Two kernels: one streams the weights past few
// cells at the speed of memory, the other fills tiles of the tensor cores.
//
// Activations are fp32. A tensor core takes bf16, so the tile kernel splits each activation into
// three bf16 terms that add up to it (kSplits 3: the accuracy of fp32 sums), or rounds it (1).
// Quantized weights are expanded on the way: values times one scale per block of the matrix.
#pragma once

#include "kernels/cuda/dense.cuh"
#include "kernels/cuda/execution.h"
#include "kernels/cuda/reductions.cuh"
#include "kernels/number_formats.h"

namespace engramd::kernels::cuda {

enum class WeightFormat {
  kF32,
  kBF16,
  kF8E4M3,  // with scales
  kI8,      // with scales
  kI4,      // with scales; two per byte, the lower column in the lower half, stored as value + 8
};

struct WeightRef {
  const void* weight = nullptr;   // [out_features, in_features] of the format
  const float* scales = nullptr;  // [ceil(out / block_rows), ceil(in / block_columns)]
  const float* bias = nullptr;    // [out_features] or nullptr
};

struct WeightShape {
  int out_features = 0, in_features = 0;
  int block_rows = 1, block_columns = 1;  // that share a scale

  ENGRAMD_DEVICE float scale(const WeightRef& ref, int row, int column) const {
    const int n_columns = (in_features + block_columns - 1) / block_columns;
    const int n_rows = (out_features + block_rows - 1) / block_rows;
    const DeviceSpan<const float> scales{ref.scales, std::int64_t{n_rows} * n_columns};
    return scales[std::int64_t{row / block_rows} * n_columns + column / block_columns];
  }
};

// W[row][column], as fp32.
template <WeightFormat kFormat>
ENGRAMD_DEVICE float weight_at(const WeightRef& ref, const WeightShape& shape, int row,
                               int column) {
  const std::int64_t size = std::int64_t{shape.out_features} * shape.in_features;
  const std::int64_t at = std::int64_t{row} * shape.in_features + column;
  if constexpr (kFormat == WeightFormat::kF32) {
    return DeviceSpan<const float>{static_cast<const float*>(ref.weight), size}[at];
  } else if constexpr (kFormat == WeightFormat::kBF16) {
    return decode_bf16(
        DeviceSpan<const std::uint16_t>{static_cast<const std::uint16_t*>(ref.weight), size}[at]);
  } else if constexpr (kFormat == WeightFormat::kF8E4M3) {
    const DeviceSpan<const std::uint8_t> codes{static_cast<const std::uint8_t*>(ref.weight), size};
    return decode_e4m3(codes[at]) * shape.scale(ref, row, column);
  } else if constexpr (kFormat == WeightFormat::kI8) {
    const DeviceSpan<const std::int8_t> codes{static_cast<const std::int8_t*>(ref.weight), size};
    return static_cast<float>(codes[at]) * shape.scale(ref, row, column);
  } else {  // rows start on whole bytes
    const std::int64_t row_bytes = (shape.in_features + 1) / 2;
    const DeviceSpan<const std::uint8_t> codes{static_cast<const std::uint8_t*>(ref.weight),
                                               shape.out_features * row_bytes};
    const int pair = codes[row * row_bytes + column / 2];
    const int code = (pair >> (column % 2 * 4)) & 0xF;
    return static_cast<float>(code - 8) * shape.scale(ref, row, column);
  }
}

// Eight neighbours; column and in_features are multiples of 8.
template <WeightFormat kFormat>
ENGRAMD_DEVICE void weights_at(const WeightRef& ref, const WeightShape& shape, int row, int column,
                               DeviceArray<float, 8>& values) {
  if constexpr (kFormat == WeightFormat::kBF16) {
    const DeviceSpan<const std::uint16_t> weights{
        static_cast<const std::uint16_t*>(ref.weight),
        std::int64_t{shape.out_features} * shape.in_features};
    const auto vector = load_vector(weights, std::int64_t{row} * shape.in_features + column);
    for (int i = 0; i < 8; ++i) values[i] = decode_bf16(vector.values[i]);
  } else {
    for (int i = 0; i < 8; ++i) values[i] = weight_at<kFormat>(ref, shape, row, column + i);
  }
}

// Which cells a product has. Groups of equal size: cell i of group g is row i * n_groups + g of x
// and of out (n_groups 1: the tokens; heads: [n_tokens, n_heads, width]). Groups of any size: the
// cells stand sorted by group, and arrays on the device say where each begins.
struct CellGroups {
  int n_groups = 1;
  int cells_per_group = 0;                      // of equal groups
  DeviceSpan<const std::int32_t> cell_offsets;  // [n_groups + 1], or empty: equal groups
  DeviceSpan<const std::int32_t> tile_offsets;  // [n_groups + 1], tiles before each group
  DeviceSpan<const std::int32_t> x_rows;        // [n_cells], or empty: the cell's own number
  DeviceSpan<const std::int32_t> out_rows;      // [n_cells], or empty
};

// One warp per output feature and kCells cells, lanes along the inputs; block y counts chunks of
// cells. With group_of_cell every cell is alone and names its group: a token's experts, as the
// router has just chosen them.
template <WeightFormat kFormat, int kCells>
struct StreamLinearKernel {
  using Shared = NoShared;
  static constexpr int kThreads = 128;
  static constexpr int kWarps = kThreads / kWarpLanes;
  static constexpr const char* kName = "stream_linear";

  WeightShape shape;
  DeviceSpan<const WeightRef> weights;           // [n_groups]
  DeviceSpan<const std::int32_t> group_of_cell;  // [n_cells], or empty
  DeviceSpan<const std::int32_t> x_rows;         // [n_cells]; with group_of_cell only
  CellGroups groups;                             // without group_of_cell; equal groups
  DeviceSpan<const float> x;                     // rows of in_features, x_stride apart
  int x_stride = 0;
  DeviceSpan<float> out;  // [.., out_features]

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared&) const {
    const auto row = static_cast<int>(thread.block_x() * kWarps + thread.warp());
    if (row >= shape.out_features) return;  // a whole warp, and no barrier follows
    const int y = thread.block_y();
    int group = 0;
    int n_cells = 1;
    std::int64_t x_row = 0, out_row = 0;
    int step = 0;
    if (!group_of_cell.empty()) {
      group = group_of_cell[y];
      x_row = x_rows.empty() ? y : x_rows[y];
      out_row = y;
    } else {
      const auto chunks = static_cast<int>(ceil_divide(groups.cells_per_group, kCells));
      group = y / chunks;
      const int first = y % chunks * kCells;
      n_cells = groups.cells_per_group - first < kCells ? groups.cells_per_group - first : kCells;
      step = groups.n_groups;
      x_row = out_row = std::int64_t{first} * step + group;
    }
    const WeightRef ref = weights[group];
    DeviceArray<float, kCells> sums;
    for (int c = 0; c < kCells; ++c) sums[c] = 0;
    if (shape.in_features % 8 == 0 && x_stride % 4 == 0) {
      for (const int chunk : thread.lane_strided(shape.in_features / 8)) {
        DeviceArray<float, 8> w;
        weights_at<kFormat>(ref, shape, row, chunk * 8, w);
        for (int c = 0; c < kCells; ++c) {
          if (c >= n_cells) break;
          const std::int64_t at = (x_row + std::int64_t{c} * step) * x_stride + chunk * 8;
          const auto low = load_vector(x, at);
          const auto high = load_vector(x, at + 4);
          for (int i = 0; i < 4; ++i) sums[c] += w[i] * low.values[i];
          for (int i = 0; i < 4; ++i) sums[c] += w[4 + i] * high.values[i];
        }
      }
    } else {
      for (const int i : thread.lane_strided(shape.in_features)) {
        const float w = weight_at<kFormat>(ref, shape, row, i);
        for (int c = 0; c < n_cells; ++c) {
          sums[c] += w * x[(x_row + std::int64_t{c} * step) * x_stride + i];
        }
      }
    }
    for (int c = 0; c < kCells; ++c) {
      if (c >= n_cells) break;  // the same for all lanes
      const float sum = warp_sum(thread, sums[c]);
      if (thread.lane() != 0) continue;
      const float bias =
          ref.bias == nullptr ? 0.0F : DeviceSpan<const float>{ref.bias, shape.out_features}[row];
      out[(out_row + std::int64_t{c} * step) * shape.out_features + row] = sum + bias;
    }
  }
};

// Tiles of 64 output features and 32 cells. Four warps, each 16 features high. The inputs pass in
// steps of 32 through two stages of shared memory: while one is multiplied, the other is filled.
template <WeightFormat kFormat, int kSplits>
struct TileLinearKernel {
  static constexpr int kThreads = 128;
  static constexpr int kRows = 64, kCells = 32, kStep = 32;
  static constexpr int kStride = kStep + 8;  // bf16; 20 words: the lanes of a load hit all banks
  static constexpr const char* kName = "tile_linear";

  struct alignas(16) Stage {
    DeviceArray<std::uint16_t, kRows * kStride> weights;
    DeviceArray<std::uint16_t, kSplits * kCells * kStride> x;
  };
  struct Shared {
    Stage stages[2];
    DeviceArray<std::int32_t, kCells> x_rows;  // -1: no cell here
    DeviceArray<std::int32_t, kCells> out_rows;
  };

  WeightShape shape;
  DeviceSpan<const WeightRef> weights;  // [n_groups]
  CellGroups groups;
  DeviceSpan<const float> x;  // rows of in_features, x_stride apart
  int x_stride = 0;
  DeviceSpan<float> out;  // [.., out_features]

  struct Tile {
    int group = 0, first_cell = 0, n_cells = 0;  // first_cell within its group
  };

  // block_y of tiles over all groups; n_cells 0: past the last one.
  ENGRAMD_DEVICE Tile find_tile(int y) const {
    if (groups.cell_offsets.empty()) {
      const auto tiles = static_cast<int>(ceil_divide(groups.cells_per_group, kCells));
      const int first = y % tiles * kCells;
      return {y / tiles, first, groups.cells_per_group - first};
    }
    if (y >= groups.tile_offsets[groups.n_groups]) return {};
    int low = 0;  // the last group whose tiles begin at or before y
    int high = groups.n_groups;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (groups.tile_offsets[middle] <= y) {
        low = middle;
      } else {
        high = middle;
      }
    }
    const int first = (y - groups.tile_offsets[low]) * kCells;
    const int size = groups.cell_offsets[low + 1] - groups.cell_offsets[low];
    return {low, first, size - first};
  }

  template <class Thread>
  ENGRAMD_DEVICE void find_rows(Thread& thread, Shared& shared, const Tile& tile) const {
    for (const int c : thread.strided(kCells)) {
      int x_row = -1;
      int out_row = -1;
      if (c < tile.n_cells && groups.cell_offsets.empty()) {
        x_row = out_row = (tile.first_cell + c) * groups.n_groups + tile.group;
      } else if (c < tile.n_cells) {
        const int cell = groups.cell_offsets[tile.group] + tile.first_cell + c;
        x_row = groups.x_rows.empty() ? cell : groups.x_rows[cell];
        out_row = groups.out_rows.empty() ? cell : groups.out_rows[cell];
      }
      shared.x_rows[c] = x_row;
      shared.out_rows[c] = out_row;
    }
    thread.sync();
  }

  template <class Thread>
  ENGRAMD_DEVICE void load_weights(Thread& thread, Stage& stage, const WeightRef& ref,
                                   int first_row, int first_column) const {
    if constexpr (kFormat == WeightFormat::kBF16) {
      if (shape.in_features % 8 == 0) {  // 16 bytes at a time, past the registers
        constexpr int kVectors = kStep / 8;
        const DeviceSpan<const std::uint16_t> matrix{
            static_cast<const std::uint16_t*>(ref.weight),
            std::int64_t{shape.out_features} * shape.in_features};
        for (const int i : thread.strided(kRows * kVectors)) {
          const int row = first_row + i / kVectors;
          const int column = first_column + i % kVectors * 8;
          std::uint16_t* to = &stage.weights[i / kVectors * kStride + i % kVectors * 8];
          if (row < shape.out_features && column < shape.in_features) {
            thread.copy_async(to, &matrix[std::int64_t{row} * shape.in_features + column]);
          } else {
            for (int j = 0; j < 8; ++j) to[j] = 0;
          }
        }
        return;
      }
    }
    for (const int i : thread.strided(kRows * kStep)) {
      const int row = first_row + i / kStep;
      const int column = first_column + i % kStep;
      const bool inside = row < shape.out_features && column < shape.in_features;
      stage.weights[i / kStep * kStride + i % kStep] =
          inside ? encode_bf16(weight_at<kFormat>(ref, shape, row, column)) : std::uint16_t{0};
    }
  }

  template <class Thread>
  ENGRAMD_DEVICE void load_x(Thread& thread, Shared& shared, Stage& stage, int first_column) const {
    for (const int i : thread.strided(kCells * kStep)) {
      const int cell = i / kStep;
      const int column = first_column + i % kStep;
      const std::int64_t row = shared.x_rows[cell];
      const bool inside = row >= 0 && column < shape.in_features;
      float rest = inside ? x[row * x_stride + column] : 0.0F;
      for (int split = 0; split < kSplits; ++split) {
        const std::uint16_t term = encode_bf16(rest);
        stage.x[(split * kCells + cell) * kStride + i % kStep] = term;
        rest -= decode_bf16(term);
      }
    }
  }

  template <class Thread>
  ENGRAMD_DEVICE void multiply(Thread& thread, Stage& stage, MmaD* sums) const {
    const int group = thread.lane() / 4;
    const int pair = thread.lane() % 4;
    for (int k = 0; k < kStep; k += 16) {
      const int row = thread.warp() * 16 + group;
      MmaA a;
      a.words[0] = word_at(stage.weights, row * kStride + k + 2 * pair);
      a.words[1] = word_at(stage.weights, (row + 8) * kStride + k + 2 * pair);
      a.words[2] = word_at(stage.weights, row * kStride + k + 8 + 2 * pair);
      a.words[3] = word_at(stage.weights, (row + 8) * kStride + k + 8 + 2 * pair);
      for (int split = kSplits - 1; split >= 0; --split) {  // the smallest terms first
        for (int n = 0; n < kCells / 8; ++n) {
          const int cell = split * kCells + n * 8 + group;
          MmaB b;
          b.words[0] = word_at(stage.x, cell * kStride + k + 2 * pair);
          b.words[1] = word_at(stage.x, cell * kStride + k + 8 + 2 * pair);
          thread.mma(sums[n], a, b);
        }
      }
    }
  }

  template <int kSize>
  static ENGRAMD_DEVICE std::uint32_t word_at(const DeviceArray<std::uint16_t, kSize>& values,
                                              int index) {
    static_cast<void>(values[index + 1]);
    return *reinterpret_cast<const std::uint32_t*>(&values[index]);
  }

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared& shared) const {
    const Tile tile = find_tile(thread.block_y());
    if (tile.n_cells <= 0) return;  // the whole block
    const auto first_row = static_cast<int>(thread.block_x() * kRows);
    const WeightRef ref = weights[tile.group];
    find_rows(thread, shared, tile);
    MmaD sums[kCells / 8];
    for (MmaD& sum : sums) {
      for (float& value : sum.values) value = 0;
    }
    const int n_steps = (shape.in_features + kStep - 1) / kStep;
    load_weights(thread, shared.stages[0], ref, first_row, 0);
    load_x(thread, shared, shared.stages[0], 0);
    for (int step = 0; step < n_steps; ++step) {
      thread.wait_copies();
      thread.sync();  // this stage is filled, and nobody multiplies the other one any more
      if (step + 1 < n_steps) {
        load_weights(thread, shared.stages[(step + 1) % 2], ref, first_row, (step + 1) * kStep);
        load_x(thread, shared, shared.stages[(step + 1) % 2], (step + 1) * kStep);
      }
      multiply(thread, shared.stages[step % 2], sums);
    }
    store(thread, shared, ref, first_row, sums);
  }

  template <class Thread>
  ENGRAMD_DEVICE void store(Thread& thread, Shared& shared, const WeightRef& ref, int first_row,
                            const MmaD* sums) const {
    for (int n = 0; n < kCells / 8; ++n) {
      for (int i = 0; i < 4; ++i) {
        const int row = first_row + thread.warp() * 16 + thread.lane() / 4 + i / 2 * 8;
        const std::int64_t out_row = shared.out_rows[n * 8 + thread.lane() % 4 * 2 + i % 2];
        if (row >= shape.out_features || out_row < 0) continue;
        const float bias =
            ref.bias == nullptr ? 0.0F : DeviceSpan<const float>{ref.bias, shape.out_features}[row];
        out[out_row * shape.out_features + row] = sums[n].values[i] + bias;
      }
    }
  }
};

// One block per (head, row): the key part of kv_b_proj turned, [heads, kv_lora_rank, qk_nope].
struct TransposeKeysKernel {
  using Shared = NoShared;
  static constexpr int kThreads = 128;
  static constexpr const char* kName = "transpose_keys";

  DeviceSpan<const std::uint16_t> kv_b;  // [heads * (qk_nope + v), kv_lora_rank], bf16
  DeviceSpan<std::uint16_t> keys;        // [heads, kv_lora_rank, qk_nope]
  int qk_nope_head_dim = 0, v_head_dim = 0, kv_lora_rank = 0;

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared&) const {
    const std::int64_t head = thread.block_y();
    const std::int64_t i = thread.block_x();  // of qk_nope
    const std::int64_t from = (head * (qk_nope_head_dim + v_head_dim) + i) * kv_lora_rank;
    for (const int r : thread.strided(kv_lora_rank)) {
      keys[(head * kv_lora_rank + r) * qk_nope_head_dim + i] = kv_b[from + r];
    }
  }
};

}  // namespace engramd::kernels::cuda
