// Sampling on the device: logits to the next token. The distribution is that of the CPU's sampler
// (engine/runtime/sampler.h): temperature, then top-k, then top-p, then min-p; equal logits rank by
// ascending id. A draw walks the kept tokens in the order of ids, where the CPU walks by rank: the
// same distribution, another token for the same random number. Bias and penalties are the host's
// and come in as a change of the logits.
#pragma once

#include <bit>
#include <cfloat>
#include <cmath>

#include "kernels/cuda/execution.h"
#include "kernels/cuda/reductions.cuh"

namespace engramd::kernels::cuda {

struct SamplingShape {
  float inverse_temperature = 0;  // 0: greedy
  int top_k = 0;                  // 0: off
  float top_p = 1;                // 1: off
  float min_p = 0;                // 0: off
};

// One block per sequence.
struct SampleKernel {
  static constexpr int kThreads = 256;
  static constexpr const char* kName = "sample";
  static constexpr int kBins = 256;  // one per value of a key's byte
  struct Shared {
    BlockScratch scratch;
    DeviceArray<float, kThreads> totals;  // per thread, of its stretch of ids
    DeviceArray<std::uint64_t, kBins> bins;
    std::uint32_t key;   // the last key that is kept
    std::uint64_t left;  // how much of that key is kept
    DeviceArray<float, kThreads / kWarpLanes> best_logit;
    DeviceArray<std::int32_t, kThreads / kWarpLanes> best_id;
  };

  int vocab_size = 0;
  DeviceSpan<const SamplingShape> shapes;  // [n_sequences]
  DeviceSpan<const float> logits;          // [n_sequences, vocab_size]
  DeviceSpan<const float> random;          // [n_sequences], in [0, 1)
  DeviceSpan<float> weights;               // [n_sequences, vocab_size]: what a draw goes by
  DeviceSpan<std::int32_t> tokens;         // [n_sequences]

  // NaN and -infinity count as the lowest float, infinity as the greatest.
  static ENGRAMD_DEVICE float finite(float x) {
    return x > -FLT_MAX ? (x < FLT_MAX ? x : FLT_MAX) : -FLT_MAX;
  }
  // Unsigned keys in the order of floats.
  static ENGRAMD_DEVICE std::uint32_t key_of(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
  }

  // The lowest id of the greatest logit, to every thread.
  template <class Thread>
  ENGRAMD_DEVICE int argmax(Thread& thread, Shared& shared, const DeviceSpan<const float>& row,
                            float& largest) const {
    float logit = -INFINITY;
    int id = vocab_size;
    for (const int i : thread.strided(vocab_size)) {
      const float x = finite(row[i]);
      if (x > logit) {
        logit = x;
        id = i;
      }
    }
    for (int mask = kWarpLanes / 2; mask > 0; mask /= 2) {
      const float other = thread.shuffle_xor(logit, mask);
      const int other_id = thread.shuffle_xor(id, mask);
      if (other > logit || (other == logit && other_id < id)) {
        logit = other;
        id = other_id;
      }
    }
    if (thread.lane() == 0) {
      shared.best_logit[thread.warp()] = logit;
      shared.best_id[thread.warp()] = id;
    }
    thread.sync();
    largest = shared.best_logit[0];
    id = shared.best_id[0];
    for (int warp = 1; warp < thread.n_warps(); ++warp) {
      const float other = shared.best_logit[warp];
      if (other > largest || (other == largest && shared.best_id[warp] < id)) {
        largest = other;
        id = shared.best_id[warp];
      }
    }
    return id;
  }

  // A weight as an integer: sums of integers do not depend on the order of atomic additions. The
  // greatest weight is 1, and 2^23 of them fit.
  static ENGRAMD_DEVICE std::uint64_t fixed_point(float weight) {
    return static_cast<std::uint64_t>(weight * 0x1p40F);
  }

  // Finds the key at which the greatest keys' amounts reach `wanted`, one byte of it at a time;
  // leaves it and how much of it is wanted.
  template <class Thread, class Amount>
  ENGRAMD_DEVICE void select(Thread& thread, Shared& shared, const DeviceSpan<const float>& row,
                             std::uint64_t wanted, const Amount& amount) const {
    std::uint32_t prefix = 0;
    for (int shift = 24; shift >= 0; shift -= 8) {
      const std::uint32_t mask = shift == 24 ? 0U : ~0U << (shift + 8);
      for (const int bin : thread.strided(kBins)) shared.bins[bin] = 0;
      thread.sync();
      for (const int i : thread.strided(vocab_size)) {
        const std::uint32_t key = key_of(finite(row[i]));
        if ((key & mask) != prefix) continue;
        thread.atomic_add(shared.bins[static_cast<int>((key >> shift) & 0xFFU)], amount(i));
      }
      thread.sync();
      if (thread.index() == 0) {
        int bin = kBins - 1;
        int last = bin;  // that holds anything: with rounding all may be less than `wanted`
        for (; bin >= 0 && shared.bins[last] < wanted; --bin) {
          if (shared.bins[bin] == 0) continue;
          if (last != bin) wanted -= shared.bins[last];
          last = bin;
        }
        shared.key = prefix | static_cast<std::uint32_t>(last) << shift;
        shared.left = wanted;
      }
      thread.sync();
      prefix = shared.key;
      wanted = shared.left;
    }
  }

  // Weights of keys below the last kept one to zero, and of its ties all that come after enough.
  template <class Thread, class Amount>
  ENGRAMD_DEVICE void cut(Thread& thread, Shared& shared, const DeviceSpan<const float>& row,
                          const DeviceSpan<float>& kept, const Amount& amount) const {
    float n_ties = 0;
    for (const int i : thread.strided(vocab_size)) {
      const std::uint32_t key = key_of(finite(row[i]));
      if (key < shared.key) kept[i] = 0;
      n_ties += key == shared.key ? 1.0F : 0.0F;
    }
    n_ties = block_sum(thread, shared.scratch, n_ties);
    if (n_ties > 1 && thread.index() == 0) {
      std::uint64_t sum = 0;
      for (int i = 0; i < vocab_size; ++i) {
        if (key_of(finite(row[i])) != shared.key) continue;
        const std::uint64_t mine = amount(i);
        if (sum >= shared.left) kept[i] = 0;
        sum += mine;
      }
    }
    thread.sync();
  }

  template <class Thread>
  ENGRAMD_DEVICE float total_of(Thread& thread, Shared& shared,
                                const DeviceSpan<float>& kept) const {
    float sum = 0;
    for (const int i : thread.strided(vocab_size)) sum += kept[i];
    return block_sum(thread, shared.scratch, sum);
  }

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared& shared) const {
    const std::int64_t sequence = thread.block_x();
    const SamplingShape shape = shapes[sequence];
    const DeviceSpan<const float> row = logits.from(sequence * vocab_size);
    const DeviceSpan<float> kept = weights.from(sequence * vocab_size);
    float largest = 0;
    const int best = argmax(thread, shared, row, largest);
    const bool greedy = shape.inverse_temperature == 0;
    for (const int i : thread.strided(vocab_size)) {
      const float weight = std::exp((finite(row[i]) - largest) * shape.inverse_temperature);
      kept[i] = greedy ? (i == best ? 1.0F : 0.0F) : weight;
    }
    thread.sync();
    if (!greedy && shape.top_k > 0 && shape.top_k < vocab_size) {
      const auto one = [](int) { return std::uint64_t{1}; };
      select(thread, shared, row, static_cast<std::uint64_t>(shape.top_k), one);
      cut(thread, shared, row, kept, one);
    }
    if (!greedy && shape.top_p < 1) {
      const float total = total_of(thread, shared, kept);
      const auto weight = [&kept](int i) { return fixed_point(kept[i]); };
      const std::uint64_t nucleus = fixed_point(shape.top_p * total);
      select(thread, shared, row, nucleus > 0 ? nucleus : 1, weight);
      cut(thread, shared, row, kept, weight);
    }
    if (!greedy && shape.min_p > 0) {
      for (const int i : thread.strided(vocab_size)) {
        if (kept[i] < shape.min_p && i != best) kept[i] = 0;
      }
      thread.sync();
    }
    draw(thread, shared, kept, sequence);
  }

  // Each thread adds a stretch of ids; the stretch that the random number falls into is walked.
  template <class Thread>
  ENGRAMD_DEVICE void draw(Thread& thread, Shared& shared, const DeviceSpan<float>& kept,
                           std::int64_t sequence) const {
    const auto stretch = static_cast<int>(ceil_divide(vocab_size, kThreads));
    for (const int t : thread.strided(kThreads)) {
      float sum = 0;
      for (int i = t * stretch; i < (t + 1) * stretch && i < vocab_size; ++i) sum += kept[i];
      shared.totals[t] = sum;
    }
    thread.sync();
    if (thread.index() != 0) return;
    float total = 0;
    for (int t = 0; t < kThreads; ++t) total += shared.totals[t];
    float left = random[sequence] * total;
    int t = 0;
    for (; t < kThreads - 1 && left >= shared.totals[t]; ++t) left -= shared.totals[t];
    int token = 0;  // rounding may leave `left` above the last weight: the last one is drawn
    bool found = false;
    for (int i = t * stretch; i < (t + 1) * stretch && i < vocab_size && !found; ++i) {
      if (kept[i] <= 0) continue;
      token = i;
      left -= kept[i];
      found = left < 0;
    }
    for (int i = t * stretch - 1; i >= 0 && !found; --i) {
      if (kept[i] <= 0) continue;
      if (token < i) token = i;
      found = true;
    }
    tokens[sequence] = token;
  }
};

}  // namespace engramd::kernels::cuda
