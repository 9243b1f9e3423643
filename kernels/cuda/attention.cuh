// Attention over the paged cache. One kernel serves multi-head latent attention in its absorbed
// form (all heads share one cached row per token: its latent is key and value) and grouped-query
// attention (heads of a group share a key and a value), prompts and single tokens alike: a tile is
// eight (token, head) pairs of one sequence that read the same cached rows. The keys of a tile can
// be split over blocks; a second kernel joins the parts.
#pragma once

#include <cmath>

#include "kernels/cuda/dense.cuh"
#include "kernels/cuda/execution.h"
#include "kernels/cuda/paged_cache.cuh"
#include "kernels/cuda/reductions.cuh"

namespace engramd::kernels::cuda {

// x's pairs (2i, 2i + 1), or halves (i, i + width / 2), turned by the angles of one position.
struct Rotary {
  DeviceSpan<const float> table;  // [positions, width]: cosine and sine of each pair
  int width = 0;
  bool halves = false;  // which elements make a pair

  ENGRAMD_DEVICE int first(int pair) const { return halves ? pair : 2 * pair; }
  ENGRAMD_DEVICE int second(int pair) const { return halves ? pair + width / 2 : 2 * pair + 1; }
  ENGRAMD_DEVICE void rotate(int position, int pair, float& a, float& b) const {
    const float cosine = table[std::int64_t{position} * width + 2 * pair];
    const float sine = table[std::int64_t{position} * width + 2 * pair + 1];
    const float x = a;
    const float y = b;
    a = x * cosine - y * sine;
    b = x * sine + y * cosine;
  }
};

// One block per token: the normed latent and the rotated key part into the cache, and the rotary
// part of every head's query turned in place.
struct StoreLatentKernel {
  static constexpr int kThreads = 128;
  static constexpr const char* kName = "store_latent";
  using Shared = BlockScratch;

  int n_heads = 0, qk_nope_head_dim = 0, kv_lora_rank = 0;
  float rms_norm_eps = 0;
  Rotary rotary;
  DeviceSpan<const float> norm;       // [kv_lora_rank]
  DeviceSpan<const float> latent;     // [n_tokens, kv_lora_rank + rope]
  DeviceSpan<const TokenSlot> slots;  // [n_tokens]
  DeviceSpan<float> query;            // [n_tokens, heads, qk_nope + rope]
  DeviceCache cache;

  std::int64_t dynamic_shared_bytes() const {
    return static_cast<std::int64_t>(sizeof(float)) * cache.width;
  }

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared& shared) const {
    const DeviceSpan<float> entry = thread.dynamic_shared();  // what the cache gets
    const std::int64_t token = thread.block_x();
    const TokenSlot slot = slots[token];
    const int rope = rotary.width;
    const DeviceSpan<const float> row = latent.from(token * (kv_lora_rank + rope));
    float square = 0;
    for (const int i : thread.strided(kv_lora_rank)) square += row[i] * row[i];
    square = block_sum(thread, shared, square);
    const float factor = 1.0F / std::sqrt(square / static_cast<float>(kv_lora_rank) + rms_norm_eps);
    for (const int i : thread.strided(kv_lora_rank)) entry[i] = row[i] * factor * norm[i];
    for (const int pair : thread.strided(rope / 2)) {
      float a = row[kv_lora_rank + rotary.first(pair)];
      float b = row[kv_lora_rank + rotary.second(pair)];
      rotary.rotate(slot.position, pair, a, b);
      entry[kv_lora_rank + rotary.first(pair)] = a;
      entry[kv_lora_rank + rotary.second(pair)] = b;
    }
    thread.sync();
    float largest = 0;
    for (const int i : thread.strided(cache.width)) {
      largest = std::fmax(largest, std::fabs(entry[i]));
    }
    const float scale = cache.entry_scale(block_max(thread, shared, largest));
    const std::int64_t place = cache.entry(slot.sequence, slot.position);
    for (const int i : thread.strided(cache.width)) cache.store(place, i, entry[i], scale);
    if (thread.index() == 0 && cache.scales != nullptr) {
      DeviceSpan<float>{cache.scales, cache.n_entries}[place] = scale;
    }
    const int head_width = qk_nope_head_dim + rope;
    for (const int i : thread.strided(n_heads * (rope / 2))) {
      const int pair = i % (rope / 2);
      const std::int64_t head = (token * n_heads + i / (rope / 2)) * head_width + qk_nope_head_dim;
      rotary.rotate(slot.position, pair, query[head + rotary.first(pair)],
                    query[head + rotary.second(pair)]);
    }
  }
};

// One block per token, grouped-query attention: keys turned and stored beside their values, an
// entry is [kv_heads][head_dim key, head_dim value]; queries turned in place. With a norm, each
// head of query and key is normed first (Qwen3).
struct StoreGroupedKernel {
  static constexpr int kThreads = 128;
  static constexpr const char* kName = "store_grouped";
  struct Shared {
    BlockScratch scratch;
  };

  int n_heads = 0, n_kv_heads = 0, head_dim = 0;
  float rms_norm_eps = 0;
  Rotary rotary;
  DeviceSpan<const float> query_norm, key_norm;  // [head_dim], or empty
  DeviceSpan<float> query;                       // [n_tokens, heads, head_dim]
  DeviceSpan<float> key;                         // [n_tokens, kv_heads, head_dim]
  DeviceSpan<const float> value;                 // [n_tokens, kv_heads, head_dim]
  DeviceSpan<const TokenSlot> slots;
  DeviceCache cache;

  // A warp per head of x, in place.
  template <class Thread>
  ENGRAMD_DEVICE void norm_and_rotate(Thread& thread, const DeviceSpan<float>& x, int heads,
                                      const DeviceSpan<const float>& norm, int position) const {
    for (const int head : thread.warp_strided(heads)) {
      const DeviceSpan<float> row = x.from(std::int64_t{head} * head_dim);
      if (!norm.empty()) {
        float square = 0;
        for (const int i : thread.lane_strided(head_dim)) square += row[i] * row[i];
        square = warp_sum(thread, square);
        const float factor = 1.0F / std::sqrt(square / static_cast<float>(head_dim) + rms_norm_eps);
        for (const int i : thread.lane_strided(head_dim)) row[i] = row[i] * factor * norm[i];
        thread.sync_warp();
      }
      for (const int pair : thread.lane_strided(rotary.width / 2)) {
        rotary.rotate(position, pair, row[rotary.first(pair)], row[rotary.second(pair)]);
      }
    }
  }

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared& shared) const {
    const std::int64_t token = thread.block_x();
    const TokenSlot slot = slots[token];
    const DeviceSpan<float> keys = key.from(token * n_kv_heads * head_dim);
    const DeviceSpan<const float> values = value.from(token * n_kv_heads * head_dim);
    norm_and_rotate(thread, query.from(token * n_heads * head_dim), n_heads, query_norm,
                    slot.position);
    norm_and_rotate(thread, keys, n_kv_heads, key_norm, slot.position);
    thread.sync();
    const int size = n_kv_heads * head_dim;
    float largest = 0;
    for (const int i : thread.strided(size)) {
      largest = std::fmax(largest, std::fmax(std::fabs(keys[i]), std::fabs(values[i])));
    }
    const float scale = cache.entry_scale(block_max(thread, shared.scratch, largest));
    const std::int64_t entry = cache.entry(slot.sequence, slot.position);
    for (const int i : thread.strided(size)) {
      const int column = i / head_dim * 2 * head_dim + i % head_dim;
      cache.store(entry, column, keys[i], scale);
      cache.store(entry, column + head_dim, values[i], scale);
    }
    if (thread.index() == 0 && cache.scales != nullptr) {
      DeviceSpan<float>{cache.scales, cache.n_entries}[entry] = scale;
    }
  }
};

inline constexpr int kTileRows = 8;  // (token, head) pairs that share the cached rows they read
inline constexpr int kKeysMax = 32;  // per step

// Rows of one tile: pair r is token first_token + r / heads_per_kv, head r % heads_per_kv of the
// group, counted from first_row.
struct AttentionTile {
  std::int32_t sequence = 0;
  std::int32_t first_token = 0;  // of the run of tokens, in the batch
  std::int32_t first_row = 0;    // of the tile, in the run's pairs
  std::int32_t n_rows = 0;
  std::int32_t n_keys = 0;  // the last token's position + 1
};

// Blocks: x tiles, y splits of the keys, z groups of heads. Partial results, not yet divided by
// their weight: sums of values, the largest score and the sum of weights.
template <int kColumns>  // value columns per thread
struct AttentionKernel {
  static constexpr int kThreads = 128;
  static constexpr const char* kName = "attention";
  struct Shared {
    DeviceArray<float, kTileRows * kKeysMax> scores;  // then weights
    DeviceArray<float, kTileRows> largest, weight, correction;
    DeviceArray<std::int32_t, kTileRows> positions;
  };

  int n_heads = 0, heads_per_kv = 0;
  int key_width = 0;                      // of the query, and of the key within a cached row
  int row_width = 0;                      // columns of a cached row that this group reads
  int value_offset = 0, value_width = 0;  // within them
  int keys_per_step = kKeysMax;           // what fits into shared memory
  int keys_per_split = 0;                 // a multiple of keys_per_step
  float scale = 1;
  // The query in up to two parts: part a [n_tokens, n_heads, a_width], then the columns from
  // b_offset on of part b [n_tokens, n_heads, b_stride].
  DeviceSpan<const float> query_a, query_b;
  int a_width = 0, b_offset = 0, b_stride = 0;
  DeviceSpan<const TokenSlot> slots;
  DeviceSpan<const AttentionTile> tiles;
  DeviceCache cache;
  DeviceSpan<float> sums;     // [n_tokens, n_heads, n_splits, value_width]
  DeviceSpan<float> weights;  // [n_tokens, n_heads, n_splits, 2]: largest score, sum

  static constexpr float kNothing = -1e30F;  // a score below all, finite

  std::int64_t dynamic_shared_bytes() const {
    return static_cast<std::int64_t>(sizeof(float)) *
           (kTileRows * (key_width + 1) + keys_per_step * (row_width + 1));
  }

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared& shared) const {
    const AttentionTile tile = tiles[thread.block_x()];
    const int kv_head = thread.block_z();
    const int begin = thread.block_y() * keys_per_split;
    const int end = tile.n_keys < begin + keys_per_split ? tile.n_keys : begin + keys_per_split;
    // One column more than there is: neighbouring rows then start in different banks.
    const DeviceSpan<float> queries = thread.dynamic_shared();
    const DeviceSpan<float> rows = queries.from(kTileRows * (key_width + 1));
    load_queries(thread, shared, tile, kv_head, queries);
    float sum[kTileRows][kColumns] = {};
    for (int first = begin; first < end; first += keys_per_step) {
      const int n_keys = end - first < keys_per_step ? end - first : keys_per_step;
      thread.sync();  // the step before is done with rows and scores
      for (const int i : thread.strided(n_keys * row_width)) {
        const int key = i / row_width;
        const int column = i % row_width;
        rows[key * (row_width + 1) + column] =
            cache.load(cache.entry(tile.sequence, first + key), kv_head * row_width + column);
      }
      thread.sync();
      for (const int i : thread.strided(kTileRows * n_keys)) {
        score(shared, queries, rows, i / n_keys, i % n_keys, first);
      }
      thread.sync();
      weigh(thread, shared, n_keys);
      thread.sync();
      add_values(thread, shared, rows, n_keys, sum);
    }
    thread.sync();
    store(thread, shared, tile, kv_head, sum);
  }

  template <class Thread>
  ENGRAMD_DEVICE void load_queries(Thread& thread, Shared& shared, const AttentionTile& tile,
                                   int kv_head, const DeviceSpan<float>& queries) const {
    for (const int r : thread.strided(kTileRows)) {
      shared.largest[r] = kNothing;
      shared.weight[r] = 0;
      shared.positions[r] =
          r < tile.n_rows ? slots[tile.first_token + (tile.first_row + r) / heads_per_kv].position
                          : -1;
    }
    for (const int i : thread.strided(tile.n_rows * key_width)) {
      const int r = i / key_width;
      const int column = i % key_width;
      const std::int64_t pair = pair_of(tile, kv_head, r);
      const float value = column < a_width ? query_a[pair * a_width + column]
                                           : query_b[pair * b_stride + b_offset + column - a_width];
      queries[r * (key_width + 1) + column] = value * scale;
    }
  }
  // (token, head) as one number.
  ENGRAMD_DEVICE std::int64_t pair_of(const AttentionTile& tile, int kv_head, int r) const {
    const int row = tile.first_row + r;
    const std::int64_t token = tile.first_token + row / heads_per_kv;
    return token * n_heads + kv_head * heads_per_kv + row % heads_per_kv;
  }

  ENGRAMD_DEVICE void score(Shared& shared, const DeviceSpan<float>& queries,
                            const DeviceSpan<float>& rows, int r, int key, int first) const {
    float sum = kNothing;
    if (first + key <= shared.positions[r]) {
      sum = 0;
      for (int i = 0; i < key_width; ++i) {
        sum += queries[r * (key_width + 1) + i] * rows[key * (row_width + 1) + i];
      }
    }
    shared.scores[r * kKeysMax + key] = sum;
  }

  // Scores to weights relative to the largest score so far; a warp per row, a lane per key.
  template <class Thread>
  ENGRAMD_DEVICE void weigh(Thread& thread, Shared& shared, int n_keys) const {
    for (const int r : thread.warp_strided(kTileRows)) {
      const int at = r * kKeysMax + thread.lane();
      const float mine = thread.lane() < n_keys ? shared.scores[at] : kNothing;
      const float before = shared.largest[r];
      const float largest = std::fmax(before, warp_max(thread, mine));
      // A row that has seen no key yet must not give weight to what is masked.
      const float weight = mine <= kNothing ? 0.0F : std::exp(mine - largest);
      const float sum = warp_sum(thread, weight);
      if (thread.lane() < n_keys) shared.scores[at] = weight;
      if (thread.lane() != 0) continue;
      const float correction = std::exp(before - largest);
      shared.correction[r] = correction;
      shared.largest[r] = largest;
      shared.weight[r] = shared.weight[r] * correction + sum;
    }
  }

  template <class Thread>
  ENGRAMD_DEVICE void add_values(Thread& thread, const Shared& shared,
                                 const DeviceSpan<float>& rows, int n_keys,
                                 float (&sum)[kTileRows][kColumns]) const {
    for (int c = 0; c < kColumns; ++c) {
      const int column = thread.index() + c * kThreads;
      if (column >= value_width) break;
      for (int r = 0; r < kTileRows; ++r) sum[r][c] *= shared.correction[r];
      for (int key = 0; key < n_keys; ++key) {
        const float value = rows[key * (row_width + 1) + value_offset + column];
        for (int r = 0; r < kTileRows; ++r) {
          sum[r][c] += shared.scores[r * kKeysMax + key] * value;
        }
      }
    }
  }

  template <class Thread>
  ENGRAMD_DEVICE void store(Thread& thread, const Shared& shared, const AttentionTile& tile,
                            int kv_head, const float (&sum)[kTileRows][kColumns]) const {
    for (int r = 0; r < kTileRows; ++r) {
      if (r >= tile.n_rows) break;
      const std::int64_t part = pair_of(tile, kv_head, r) * thread.n_blocks_y() + thread.block_y();
      for (int c = 0; c < kColumns; ++c) {
        const int column = thread.index() + c * kThreads;
        if (column < value_width) sums[part * value_width + column] = sum[r][c];
      }
      if (thread.index() != 0) continue;
      weights[part * 2] = shared.largest[r];
      weights[part * 2 + 1] = shared.weight[r];
    }
  }
};

// One block per (token, head): the parts of its splits joined and divided by their weight.
struct JoinSplitsKernel {
  using Shared = NoShared;
  static constexpr int kThreads = 128;
  static constexpr const char* kName = "join_splits";

  int n_splits = 1, value_width = 0;
  DeviceSpan<const float> sums;     // [n_pairs, n_splits, value_width]
  DeviceSpan<const float> weights;  // [n_pairs, n_splits, 2]
  DeviceSpan<float> out;            // [n_pairs, value_width]

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared&) const {
    const std::int64_t pair = thread.block_x();
    float largest = weights[pair * n_splits * 2];
    for (int s = 1; s < n_splits; ++s) {
      largest = std::fmax(largest, weights[(pair * n_splits + s) * 2]);
    }
    float weight = 0;
    for (int s = 0; s < n_splits; ++s) {
      const std::int64_t at = (pair * n_splits + s) * 2;
      weight += weights[at + 1] * std::exp(weights[at] - largest);
    }
    for (const int column : thread.strided(value_width)) {
      float sum = 0;
      for (int s = 0; s < n_splits; ++s) {
        const std::int64_t at = pair * n_splits + s;
        sum += sums[at * value_width + column] * std::exp(weights[at * 2] - largest);
      }
      out[pair * value_width + column] = sum / weight;
    }
  }
};

}  // namespace engramd::kernels::cuda
