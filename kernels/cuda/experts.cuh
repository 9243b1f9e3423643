// Routing: from router logits to chosen experts and their weights, to cells sorted by expert, and
// from the experts' outputs back to tokens. A cell is one (token, slot) pair. All of it stays on
// the device: the host never learns where a token goes unless it asks.
#pragma once

#include <cmath>

#include "kernels/cuda/dense.cuh"
#include "kernels/cuda/execution.h"
#include "kernels/cuda/reductions.cuh"

namespace engramd::kernels::cuda {

enum class RouterScore { kSigmoid, kSoftmax };

// One warp per token. Choice by score + bias within the best groups, weights by score alone; chosen
// experts in ascending order. Group limits: DeepSeek-V2 takes a group's greatest score, V3 the sum
// of its two greatest.
struct RouteKernel {
  static constexpr int kThreads = kWarpLanes;
  static constexpr const char* kName = "route";
  static constexpr int kChosenMax = 64;
  struct Shared {
    DeviceArray<std::int32_t, kChosenMax> chosen;
  };

  int n_experts = 0, n_chosen = 0;
  RouterScore score = RouterScore::kSigmoid;
  int n_groups = 1, n_groups_kept = 1;
  bool two_best_per_group = true;
  bool normalise = true;
  float scale = 1;
  DeviceSpan<const float> logits;   // [n_tokens, n_experts]
  DeviceSpan<const float> bias;     // [n_experts], or empty
  DeviceSpan<std::int32_t> chosen;  // [n_tokens, n_chosen]
  DeviceSpan<float> weights;        // [n_tokens, n_chosen]

  std::int64_t dynamic_shared_bytes() const {  // scores, biased scores, scores of groups
    return static_cast<std::int64_t>(sizeof(float)) * (2 * n_experts + n_groups);
  }

  struct Best {
    float value;
    int index;
  };
  // The greatest of the warp, to every lane; the lower index where values are equal.
  template <class Thread>
  ENGRAMD_DEVICE static Best warp_best(Thread& thread, Best best) {
    for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) {
      const float value = thread.shuffle_xor(best.value, mask);
      const int index = thread.shuffle_xor(best.index, mask);
      if (value > best.value || (value == best.value && index < best.index)) best = {value, index};
    }
    return best;
  }
  template <class Thread>
  ENGRAMD_DEVICE static Best best_of(Thread& thread, const DeviceSpan<float>& values, int n) {
    Best best{-INFINITY, n};
    for (const int i : thread.lane_strided(n)) {
      if (values[i] > best.value) best = {values[i], i};
    }
    return warp_best(thread, best);
  }

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared& shared) const {
    const std::int64_t token = thread.block_x();
    const DeviceSpan<float> scores = thread.dynamic_shared();
    const DeviceSpan<float> biased = scores.from(n_experts);
    make_scores(thread, scores, biased, logits.from(token * n_experts));
    thread.sync_warp();
    if (n_groups > 1) keep_best_groups(thread, biased, biased.from(n_experts));
    for (int i = 0; i < n_chosen; ++i) {
      const Best best = best_of(thread, biased, n_experts);
      if (thread.lane() == 0) {
        insert(shared, i, best.index);
        biased[best.index] = -INFINITY;
      }
      thread.sync_warp();
    }
    float sum = 0;
    for (int i = 0; i < n_chosen; ++i) sum += scores[shared.chosen[i]];
    const float factor = normalise ? scale / (sum + 1e-20F) : scale;
    for (const int i : thread.lane_strided(n_chosen)) {
      chosen[token * n_chosen + i] = shared.chosen[i];
      weights[token * n_chosen + i] = scores[shared.chosen[i]] * factor;
    }
  }

  template <class Thread>
  ENGRAMD_DEVICE void make_scores(Thread& thread, const DeviceSpan<float>& scores,
                                  const DeviceSpan<float>& biased,
                                  const DeviceSpan<const float>& row) const {
    float largest = -INFINITY;
    float total = 1;
    if (score == RouterScore::kSoftmax) {
      for (const int e : thread.lane_strided(n_experts)) largest = std::fmax(largest, row[e]);
      largest = warp_max(thread, largest);
      total = 0;
      for (const int e : thread.lane_strided(n_experts)) total += std::exp(row[e] - largest);
      total = warp_sum(thread, total);
    }
    for (const int e : thread.lane_strided(n_experts)) {
      const float value = score == RouterScore::kSoftmax ? std::exp(row[e] - largest) / total
                                                         : device_sigmoid(row[e]);
      scores[e] = value;
      biased[e] = bias.empty() ? value : value + bias[e];
    }
  }

  // Everything outside the n_groups_kept best groups to -infinity.
  template <class Thread>
  ENGRAMD_DEVICE void keep_best_groups(Thread& thread, const DeviceSpan<float>& biased,
                                       const DeviceSpan<float>& group_scores) const {
    const int size = n_experts / n_groups;
    for (const int g : thread.lane_strided(n_groups)) {
      float first = -INFINITY;
      float second = -INFINITY;
      for (int i = 0; i < size; ++i) {
        const float value = biased[g * size + i];
        if (value > first) {
          second = first;
          first = value;
        } else if (value > second) {
          second = value;
        }
      }
      group_scores[g] = two_best_per_group && size > 1 ? first + second : first;
    }
    thread.sync_warp();
    for (const int e : thread.lane_strided(n_experts)) {
      const int g = e / size;
      int n_better = 0;
      for (int other = 0; other < n_groups; ++other) {
        const float difference = group_scores[other] - group_scores[g];
        n_better += difference > 0 || (difference == 0 && other < g) ? 1 : 0;
      }
      if (n_better >= n_groups_kept) biased[e] = -INFINITY;
    }
  }

  // Into the ascending list of the first n.
  static ENGRAMD_DEVICE void insert(Shared& shared, int n, int expert) {
    int at = n;
    for (; at > 0 && shared.chosen[at - 1] > expert; --at)
      shared.chosen[at] = shared.chosen[at - 1];
    shared.chosen[at] = expert;
  }
};

// One block: the cells of a batch sorted by expert, each expert's in the order of tokens, with the
// offsets of experts and of their tiles.
struct SortCellsKernel {
  using Shared = NoShared;
  static constexpr int kThreads = 256;
  static constexpr const char* kName = "sort_cells";

  int n_experts = 0, n_chosen = 0, n_cells = 0, cells_per_tile = 1;
  DeviceSpan<const std::int32_t> chosen;  // [n_cells]
  DeviceSpan<std::int32_t> cell_offsets;  // [n_experts + 1]
  DeviceSpan<std::int32_t> tile_offsets;  // [n_experts + 1]
  DeviceSpan<std::int32_t> cells;         // [n_cells]: token * n_chosen + slot
  DeviceSpan<std::int32_t> tokens;        // [n_cells], parallel to cells

  std::int64_t dynamic_shared_bytes() const {
    return static_cast<std::int64_t>(sizeof(std::int32_t)) * n_experts;
  }

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared&) const {
    // An expert's number of cells, then where they begin.
    const DeviceSpan<std::int32_t> counts{
        reinterpret_cast<std::int32_t*>(thread.dynamic_shared().data), n_experts};
    // A thread per expert reads all cells: no atomics, so the order is always the same.
    for (const int e : thread.strided(n_experts)) {
      int count = 0;
      for (int cell = 0; cell < n_cells; ++cell) count += chosen[cell] == e ? 1 : 0;
      counts[e] = count;
    }
    thread.sync();
    if (thread.index() == 0) {
      int cell = 0;
      int tile = 0;
      for (int e = 0; e < n_experts; ++e) {
        const int count = counts[e];
        cell_offsets[e] = counts[e] = cell;
        tile_offsets[e] = tile;
        cell += count;
        tile += static_cast<int>(ceil_divide(count, cells_per_tile));
      }
      cell_offsets[n_experts] = cell;
      tile_offsets[n_experts] = tile;
    }
    thread.sync();
    for (const int e : thread.strided(n_experts)) {
      int at = counts[e];
      for (int cell = 0; cell < n_cells; ++cell) {
        if (chosen[cell] != e) continue;
        cells[at] = cell;
        tokens[at++] = cell / n_chosen;
      }
    }
  }
};

// One block per token: out = shared expert's output + sum of its cells by weight, in fixed order.
struct CombineCellsKernel {
  using Shared = NoShared;
  static constexpr int kThreads = 128;
  static constexpr const char* kName = "combine_cells";

  int n_chosen = 0, hidden_size = 0;
  DeviceSpan<const float> cells;          // [n_tokens, n_chosen, hidden_size]
  DeviceSpan<const float> weights;        // [n_tokens, n_chosen]
  DeviceSpan<const float> shared_expert;  // [n_tokens, hidden_size], or empty
  DeviceSpan<float> out;                  // [n_tokens, hidden_size]

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared&) const {
    const std::int64_t token = thread.block_x();
    for (const int i : thread.strided(hidden_size)) {
      float sum = shared_expert.empty() ? 0.0F : shared_expert[token * hidden_size + i];
      for (int slot = 0; slot < n_chosen; ++slot) {
        const std::int64_t cell = token * n_chosen + slot;
        sum += weights[cell] * cells[cell * hidden_size + i];
      }
      out[token * hidden_size + i] = sum;
    }
  }
};

}  // namespace engramd::kernels::cuda
