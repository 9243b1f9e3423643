// Hyper-connections: reading a sublayer's input from the residual streams and writing its output
// back. Formulas: install/models/engram-nano/ARCHITECTURE.md.
#pragma once

#include <cmath>

#include "kernels/cuda/dense.cuh"
#include "kernels/cuda/execution.h"
#include "kernels/cuda/reductions.cuh"
#include "kernels/limits.h"

namespace engramd::kernels::cuda {

struct HyperShape {
  int n_streams = 1, hidden_size = 0;
  int sinkhorn_iterations = 1;
  float hc_eps = 0, rms_norm_eps = 0;
};

struct HyperShared {
  BlockScratch scratch;
  DeviceArray<float, (2 + kStreamsMax) * kStreamsMax> mix;
  DeviceArray<float, kStreamsMax> pre;
  DeviceArray<float, kStreamsMax * kStreamsMax> comb;
};

// shared.mix = fn applied to the normed streams of one token; a warp per row of fn.
template <class Thread>
ENGRAMD_DEVICE void project_streams(Thread& thread, HyperShared& shared, const HyperShape& hc,
                                    const DeviceSpan<const float>& fn,
                                    const DeviceSpan<const float>& streams, int n_rows) {
  const int width = hc.n_streams * hc.hidden_size;
  float square = 0;
  for (const int i : thread.strided(width)) square += streams[i] * streams[i];
  square = block_sum(thread, shared.scratch, square);
  const float factor = 1.0F / std::sqrt(square / static_cast<float>(width) + hc.rms_norm_eps);
  for (const int row : thread.warp_strided(n_rows)) {
    float sum = 0;
    for (const int i : thread.lane_strided(width)) {
      sum += fn[std::int64_t{row} * width + i] * streams[i];
    }
    sum = warp_sum(thread, sum);
    if (thread.lane() == 0) shared.mix[row] = sum * factor;
  }
  thread.sync();
}

// x = sum over streams of pre[s] h[s].
template <class Thread>
ENGRAMD_DEVICE void read_streams(Thread& thread, const HyperShared& shared, const HyperShape& hc,
                                 const DeviceSpan<const float>& streams,
                                 const DeviceSpan<float>& x) {
  for (const int i : thread.strided(hc.hidden_size)) {
    float sum = 0;
    for (int s = 0; s < hc.n_streams; ++s) {
      sum += shared.pre[s] * streams[std::int64_t{s} * hc.hidden_size + i];
    }
    x[i] = sum;
  }
}

// One block per token.
struct HyperReadKernel {
  using Shared = HyperShared;
  static constexpr int kThreads = 256;
  static constexpr const char* kName = "hyper_read";

  HyperShape hc;
  DeviceSpan<const float> fn;       // [(2 + n) n, n D]
  DeviceSpan<const float> base;     // [(2 + n) n]
  DeviceSpan<const float> scale;    // [3]
  DeviceSpan<const float> streams;  // [n_tokens, n, D]
  DeviceSpan<float> x;              // [n_tokens, D]
  DeviceSpan<float> post;           // [n_tokens, n]
  DeviceSpan<float> comb;           // [n_tokens, n, n] as [dst][src]

  // The few numbers of Sinkhorn's iteration are one thread's work.
  ENGRAMD_DEVICE void coefficients(Shared& shared, std::int64_t token) const {
    const int n = hc.n_streams;
    for (int s = 0; s < n; ++s) {
      shared.pre[s] = device_sigmoid(shared.mix[s] * scale[0] + base[s]) + hc.hc_eps;
      post[token * n + s] = 2 * device_sigmoid(shared.mix[n + s] * scale[1] + base[n + s]);
    }
    for (int dst = 0; dst < n; ++dst) {
      float largest = -INFINITY;
      for (int src = 0; src < n; ++src) {
        const int i = 2 * n + dst * n + src;
        shared.comb[dst * n + src] = shared.mix[i] * scale[2] + base[i];
        largest = std::fmax(largest, shared.comb[dst * n + src]);
      }
      float sum = 0;
      for (int src = 0; src < n; ++src) {
        const float e = std::exp(shared.comb[dst * n + src] - largest);
        shared.comb[dst * n + src] = e;
        sum += e;
      }
      for (int src = 0; src < n; ++src) {
        shared.comb[dst * n + src] = shared.comb[dst * n + src] / sum + hc.hc_eps;
      }
    }
    normalise(shared, 1, n);
    for (int i = 1; i < hc.sinkhorn_iterations; ++i) {
      normalise(shared, n, 1);
      normalise(shared, 1, n);
    }
    for (int i = 0; i < n * n; ++i) comb[token * n * n + i] = shared.comb[i];
  }
  // Lines of comb that run along `step`, the lines `across` apart, divided by their sums.
  ENGRAMD_DEVICE void normalise(Shared& shared, int across, int step) const {
    const int n = hc.n_streams;
    for (int line = 0; line < n; ++line) {
      float sum = hc.hc_eps;
      for (int i = 0; i < n; ++i) sum += shared.comb[line * across + i * step];
      for (int i = 0; i < n; ++i) shared.comb[line * across + i * step] /= sum;
    }
  }

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared& shared) const {
    const int n = hc.n_streams;
    const std::int64_t token = thread.block_x();
    const DeviceSpan<const float> h = streams.from(token * n * hc.hidden_size);
    project_streams(thread, shared, hc, fn, h, (2 + n) * n);
    if (thread.index() == 0) coefficients(shared, token);
    thread.sync();
    read_streams(thread, shared, hc, h, x.from(token * hc.hidden_size));
  }
};

// One block per token: streams[i] = post[i] y + sum_j comb[i][j] streams[j], in place.
struct HyperWriteKernel {
  using Shared = NoShared;
  static constexpr int kThreads = 128;
  static constexpr const char* kName = "hyper_write";

  HyperShape hc;
  DeviceSpan<const float> y;     // [n_tokens, D]
  DeviceSpan<const float> post;  // [n_tokens, n]
  DeviceSpan<const float> comb;  // [n_tokens, n, n]
  DeviceSpan<float> streams;     // [n_tokens, n, D]

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared&) const {
    const int n = hc.n_streams;
    const std::int64_t token = thread.block_x();
    const DeviceSpan<float> h = streams.from(token * n * hc.hidden_size);
    for (const int i : thread.strided(hc.hidden_size)) {
      DeviceArray<float, kStreamsMax> mixed;
      for (int dst = 0; dst < n; ++dst) {
        float sum = post[token * n + dst] * y[token * hc.hidden_size + i];
        for (int src = 0; src < n; ++src) {
          sum += comb[(token * n + dst) * n + src] * h[std::int64_t{src} * hc.hidden_size + i];
        }
        mixed[dst] = sum;
      }
      for (int s = 0; s < n; ++s) h[std::int64_t{s} * hc.hidden_size + i] = mixed[s];
    }
  }
};

// One block per token: what the output head reads.
struct HyperHeadKernel {
  using Shared = HyperShared;
  static constexpr int kThreads = 128;
  static constexpr const char* kName = "hyper_head";

  HyperShape hc;
  DeviceSpan<const float> fn;       // [n, n D]
  DeviceSpan<const float> base;     // [n]
  DeviceSpan<const float> scale;    // [1]
  DeviceSpan<const float> streams;  // [n_tokens, n, D]
  DeviceSpan<float> x;              // [n_tokens, D]

  template <class Thread>
  ENGRAMD_DEVICE void operator()(Thread& thread, Shared& shared) const {
    const std::int64_t token = thread.block_x();
    const DeviceSpan<const float> h = streams.from(token * hc.n_streams * hc.hidden_size);
    project_streams(thread, shared, hc, fn, h, hc.n_streams);
    for (const int s : thread.strided(hc.n_streams)) {
      shared.pre[s] = device_sigmoid(shared.mix[s] * scale[0] + base[s]) + hc.hc_eps;
    }
    thread.sync();
    read_streams(thread, shared, hc, h, x.from(token * hc.hidden_size));
  }
};

}  // namespace engramd::kernels::cuda
