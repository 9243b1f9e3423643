// How the CPU backend cuts its work into items for the pool, and its scratch sizes. Private to
// kernels/cpu.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/limits.h"

namespace engramd::kernels {

inline constexpr int kHyperRowsMax = (2 + kStreamsMax) * kStreamsMax;

inline std::int64_t n_chunks(std::int64_t n, std::int64_t per_chunk) {
  return (n + per_chunk - 1) / per_chunk;
}

// Output rows per item: large enough to pay for claiming it (a few hundred nanoseconds of work),
// small enough to balance two threads on a matrix of a few hundred rows.
inline std::int64_t rows_per_work_item(std::int64_t n_tokens) {
  return n_tokens == 1 ? 64 : 32;
}

// Grows only: no allocation per token once the largest batch has been seen.
inline void grow(std::vector<float>& buffer, std::int64_t size) {
  if (static_cast<std::int64_t>(buffer.size()) < size)
    buffer.resize(static_cast<std::size_t>(size));
}

}  // namespace engramd::kernels
