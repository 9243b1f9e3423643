// Compiled once per instruction set (kernels/CMakeLists.txt) with ENGRAMD_VECTOR_TABLE naming the
// table it defines. Everything but the table has internal linkage, and no function of the standard
// library that could be emitted out of line is used: the linker must never hand the plain x86-64
// program a copy compiled for AVX-512.
#include "kernels/cpu/vector_kernels.h"

#include <immintrin.h>
#include <string.h>

#include "kernels/limits.h"

namespace engramd::kernels {

namespace {

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
constexpr int kAccumulatorsMax = 24;  // of 32 registers; others hold tokens and a weight
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
constexpr int kAccumulatorsMax = 12;  // of 16
#else
constexpr int kVectorBytes = 16;
constexpr int kAccumulatorsMax = 12;
#endif
constexpr int kLanes = kVectorBytes / 4;
constexpr int kTokensMax = 4;  // that share a row of weights while it is in a register

// Rows of a tile: a power of two, so that tiles fit the pool's items; 16 chains of additions are
// more than FMA latency x throughput.
constexpr int rows_of_tile(int n_tokens) {
  int rows = 16;
  while (rows > 1 && rows * n_tokens > (n_tokens == 1 ? 16 : kAccumulatorsMax)) rows /= 2;
  return rows;
}

using Floats = float __attribute__((vector_size(kVectorBytes)));
using Words = std::int32_t __attribute__((vector_size(kVectorBytes)));

inline Floats load(const float* p) {
  Floats v;
  memcpy(&v, p, sizeof(v));
  return v;
}

inline Floats load(const std::uint16_t* p) {  // bf16: the upper half of an fp32
  // By name: of a conversion of generic vectors GCC 12 makes five instructions.
#if defined(__AVX512F__)
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
#elif defined(__AVX2__)
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
#else
  const __m128i half = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), half));
#endif
}

inline float scalar(const float* p) {
  return *p;
}

inline float scalar(const std::uint16_t* p) {
  const std::uint32_t bits = static_cast<std::uint32_t>(*p) << 16;
  float v;
  memcpy(&v, &bits, sizeof(v));
  return v;
}

inline void store(float* p, Floats v) {
  memcpy(p, &v, sizeof(v));
}

inline Floats broadcast(float x) {
  return Floats{} + x;
}

// The steps of a sum over lanes, each half as wide, always the same tree. Two vectors take a step
// together: the sums of `a` go to the lower half of each group of lanes, those of `b` to the upper.
#if defined(__AVX512F__)
inline Floats add_eights(Floats a, Floats b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
}
inline Floats add_fours(Floats a, Floats b) {
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
}
inline Floats add_twos(Floats a, Floats b) {
  return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xEE));
}
inline Floats add_ones(Floats a, Floats b) {
  return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xDD));
}
#elif defined(__AVX2__)
inline Floats add_fours(Floats a, Floats b) {
  return _mm256_add_ps(_mm256_permute2f128_ps(a, b, 0x20), _mm256_permute2f128_ps(a, b, 0x31));
}
inline Floats add_twos(Floats a, Floats b) {
  return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x44), _mm256_shuffle_ps(a, b, 0xEE));
}
inline Floats add_ones(Floats a, Floats b) {
  return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xDD));
}
#else
inline Floats add_twos(Floats a, Floats b) {
  return _mm_add_ps(_mm_shuffle_ps(a, b, 0x44), _mm_shuffle_ps(a, b, 0xEE));
}
inline Floats add_ones(Floats a, Floats b) {
  return _mm_add_ps(_mm_shuffle_ps(a, b, 0x88), _mm_shuffle_ps(a, b, 0xDD));
}
#endif

// Lane i of the result: the sum over the lanes of v[i].
inline Floats reduce(const Floats (&v)[kLanes]) {
  // After the steps lane 4 q + j of a vector holds what went in at kLanes / 4 * j + q.
  constexpr int kQuarters = kLanes / 4;
  Floats w[kLanes];
  for (int q = 0; q < kQuarters; ++q) {
    for (int j = 0; j < 4; ++j) w[kQuarters * j + q] = v[4 * q + j];
  }
#if defined(__AVX512F__)
  for (int i = 0; i < 8; ++i) w[i] = add_eights(w[2 * i], w[2 * i + 1]);
#endif
#if defined(__AVX2__)
  for (int i = 0; i < 4; ++i) w[i] = add_fours(w[2 * i], w[2 * i + 1]);
#endif
  return add_ones(add_twos(w[0], w[1]), add_twos(w[2], w[3]));
}

inline float reduce(Floats v) {
#if defined(__AVX512F__)
  v = add_fours(add_eights(v, v), v);
#elif defined(__AVX2__)
  v = add_fours(v, v);
#endif
  v = add_twos(v, v);
  return add_ones(v, v)[0];
}

// e^x to about 2 ulp: Cody-Waite reduction and a degree-6 polynomial (coefficients: Cephes expf).
inline Floats exponential(Floats x) {
  const Floats low = broadcast(-87.0F);
  const Floats high = broadcast(88.0F);
  x = x < low ? low : x;
  x = x > high ? high : x;
  const Floats magic = broadcast(12582912.0F);  // 1.5 * 2^23: adding it rounds to an integer
  const Floats n = (x * 1.44269504F + magic) - magic;
  const Floats r = x - n * 0.693359375F - n * -2.12194440e-4F;
  Floats p = r * 1.9875691500e-4F + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const Words exponent = (__builtin_convertvector(n, Words) + 127) << 23;
  Floats power;
  memcpy(&power, &exponent, sizeof(power));
  return p * power;
}

inline Floats silu(Floats x) {
  return x / (exponential(-x) + 1.0F);
}

// Runs f(offset, load-and-store of whole vectors) over n elements; the rest goes through a padded
// copy, so that a tail takes the same operations as everything else.
template <class Function>
inline void for_vectors(std::int64_t n, Function f) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(i, kLanes);
  if (i < n) f(i, static_cast<int>(n - i));
}

inline Floats load_part(const float* p, int n) {
  if (n == kLanes) return load(p);
  Floats v = {};
  memcpy(&v, p, static_cast<std::size_t>(n) * sizeof(float));
  return v;
}

inline void store_part(float* p, Floats v, int n) {
  if (n == kLanes) return store(p, v);
  memcpy(p, &v, static_cast<std::size_t>(n) * sizeof(float));
}

// out[t * kRows + r]: row r by token t.
template <int kRows, int kTokens, class Weight>
inline void tile(const Weight* weight, const float* const* x, std::int64_t n, float* out) {
  constexpr int kSums = kRows * kTokens;
  constexpr int kGroups = (kSums + kLanes - 1) / kLanes;
  Floats sum[kGroups][kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Floats token[kTokens];
    for (int t = 0; t < kTokens; ++t) token[t] = load(x[t] + i);
    for (int r = 0; r < kRows; ++r) {
      const Floats w = load(weight + r * n + i);
      __builtin_prefetch(weight + (r + kRows) * n + i);  // the next tile's
      for (int t = 0; t < kTokens; ++t) {
        const int at = t * kRows + r;
        sum[at / kLanes][at % kLanes] += w * token[t];
      }
    }
  }
  for (int group = 0; group < kGroups; ++group) store(out + group * kLanes, reduce(sum[group]));
  for (; i < n; ++i) {
    for (int at = 0; at < kSums; ++at) {
      out[at] += scalar(weight + at % kRows * n + i) * x[at / kRows][i];
    }
  }
}

template <int kRows, int kTokens, class Weight>
inline void rows_by_tokens(const MatmulRows& a, std::int64_t row, std::int64_t token) {
  const float* x[kTokens];
  for (int t = 0; t < kTokens; ++t) {
    const std::int64_t source = a.x_rows != nullptr ? a.x_rows[token + t] : token + t;
    x[t] = a.x + source * a.in_features;
  }
  float out[kRows * kTokens + kLanes];  // the last store is of a whole vector
  tile<kRows, kTokens>(static_cast<const Weight*>(a.weight) + row * a.in_features, x, a.in_features,
                       out);
  for (int t = 0; t < kTokens; ++t) {
    const std::int64_t target = a.out_rows != nullptr ? a.out_rows[token + t] : token + t;
    float* y = a.out + target * a.out_stride + row;
    for (int r = 0; r < kRows; ++r) {
      y[r] = out[t * kRows + r] + (a.bias != nullptr ? a.bias[row + r] : 0.0F);
    }
  }
}

template <int kTokens, class Weight>
void all_rows(const MatmulRows& a, std::int64_t token) {
  constexpr int kRows = rows_of_tile(kTokens);
  std::int64_t row = a.row_begin;
  for (; row + kRows <= a.row_end; row += kRows)
    rows_by_tokens<kRows, kTokens, Weight>(a, row, token);
  for (; row < a.row_end; ++row) rows_by_tokens<1, kTokens, Weight>(a, row, token);
}

template <class Weight>
void matmul(const MatmulRows& a) {
  for (std::int64_t token = 0; token < a.n_tokens; token += kTokensMax) {
    switch (a.n_tokens - token) {
      case 1:
        all_rows<1, Weight>(a, token);
        break;
      case 2:
        all_rows<2, Weight>(a, token);
        break;
      case 3:
        all_rows<3, Weight>(a, token);
        break;
      default:
        all_rows<kTokensMax, Weight>(a, token);
        break;
    }
  }
}

float dot(const float* a, const float* b, std::int64_t n) {
  Floats sum[4] = {};
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int j = 0; j < 4; ++j) sum[j] += load(a + i + j * kLanes) * load(b + i + j * kLanes);
  }
  for_vectors(n - i, [&](std::int64_t at, int lanes) {
    sum[0] += load_part(a + i + at, lanes) * load_part(b + i + at, lanes);
  });
  return reduce((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

float sum_of_squares(const float* x, std::int64_t n) {
  return dot(x, x, n);
}

float dot_weighted(const float* key, const float* key_norm, const float* h, const float* query_norm,
                   std::int64_t n) {
  Floats sum = {};
  for_vectors(n, [&](std::int64_t i, int lanes) {
    sum += load_part(key + i, lanes) * load_part(key_norm + i, lanes) *
           (load_part(h + i, lanes) * load_part(query_norm + i, lanes));
  });
  return reduce(sum);
}

void scale_by(const float* x, float factor, const float* weight, std::int64_t n, float* out) {
  for_vectors(n, [&](std::int64_t i, int lanes) {
    store_part(out + i, load_part(x + i, lanes) * factor * load_part(weight + i, lanes), lanes);
  });
}

void weighted_sum(const float* x, const float* weights, int n_terms, std::int64_t n, float* out) {
  for_vectors(n, [&](std::int64_t i, int lanes) {
    Floats sum = load_part(x + i, lanes) * weights[0];
    for (int s = 1; s < n_terms; ++s) sum += load_part(x + s * n + i, lanes) * weights[s];
    store_part(out + i, sum, lanes);
  });
}

void mix_streams(const float* y, const float* post, const float* comb, int n_streams,
                 std::int64_t n, float* streams) {
  ENGRAMD_ASSERT(n_streams <= kStreamsMax);
  for_vectors(n, [&](std::int64_t i, int lanes) {
    Floats h[kStreamsMax];
    for (int s = 0; s < n_streams; ++s) h[s] = load_part(streams + s * n + i, lanes);
    const Floats written = load_part(y + i, lanes);
    for (int dst = 0; dst < n_streams; ++dst) {
      Floats sum = written * post[dst];
      for (int src = 0; src < n_streams; ++src) sum += h[src] * comb[dst * n_streams + src];
      store_part(streams + dst * n + i, sum, lanes);
    }
  });
}

void silu_multiply(float* gate, const float* up, std::int64_t n) {
  for_vectors(n, [&](std::int64_t i, int lanes) {
    store_part(gate + i, silu(load_part(gate + i, lanes)) * load_part(up + i, lanes), lanes);
  });
}

void weighted_rows_bf16(const std::uint16_t* weight, const float* x, int n_rows, std::int64_t n,
                        float* out) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Floats sum = {};
    for (int r = 0; r < n_rows; ++r) sum += load(weight + r * n + i) * x[r];
    store(out + i, sum);
  }
  for (; i < n; ++i) {
    float sum = 0;
    for (int r = 0; r < n_rows; ++r) sum += scalar(weight + r * n + i) * x[r];
    out[i] = sum;
  }
}

void attend_block(const AttendBlock& a) {
  constexpr int kKeysMax = 32;
  ENGRAMD_ASSERT(a.n_keys <= kKeysMax);
  float scores[kKeysMax];
  float largest = *a.largest;
  for (int key = 0; key < a.n_keys; ++key) {
    scores[key] = dot(a.query, a.entries + std::int64_t{key} * a.width, a.width);
    largest = scores[key] > largest ? scores[key] : largest;
  }
  for (int key = a.n_keys; key < kKeysMax; ++key) scores[key] = -1e30F;  // weight 0
  Floats total = {};
  for (int i = 0; i < kKeysMax; i += kLanes) {
    const Floats shifted = load(scores + i) - largest;
    const Floats weights = shifted < -80.0F ? Floats{} : exponential(shifted);
    total += weights;
    store(scores + i, weights);
  }
  Floats start = broadcast(*a.largest - largest);
  const float rescale = *a.largest - largest < -80.0F ? 0.0F : exponential(start)[0];
  *a.weight = *a.weight * rescale + reduce(total);
  *a.largest = largest;
  for_vectors(a.rank, [&](std::int64_t i, int lanes) {
    Floats sum = load_part(a.sum + i, lanes) * rescale;
    for (int key = 0; key < a.n_keys; ++key) {
      sum += load_part(a.entries + std::int64_t{key} * a.width + i, lanes) * scores[key];
    }
    store_part(a.sum + i, sum, lanes);
  });
}

void widen_bf16(const std::uint16_t* x, std::int64_t n, float* out) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(out + i, load(x + i));
  for (; i < n; ++i) out[i] = scalar(x + i);
}

void convolve(const float* taps, const float* const* history, int kernel_size, std::int64_t n,
              float* update) {
  for_vectors(n, [&](std::int64_t i, int lanes) {
    Floats y = {};
    for (int j = 0; j < kernel_size; ++j) {
      if (history[j] == nullptr) continue;
      Floats tap = {};  // taps are [channel][kernel_size]
      for (int c = 0; c < lanes; ++c) tap[c] = taps[(i + c) * kernel_size + kernel_size - 1 - j];
      y += tap * load_part(history[j] + i, lanes);
    }
    store_part(update + i, load_part(update + i, lanes) + silu(y), lanes);
  });
}

void add(const float* x, std::int64_t n, float* out) {
  for_vectors(n, [&](std::int64_t i, int lanes) {
    store_part(out + i, load_part(out + i, lanes) + load_part(x + i, lanes), lanes);
  });
}

#if defined(__AVX512F__)
constexpr int kBackVectors = 4, kBackTokens = 6;  // 24 accumulators, 4 weights of 32 registers
#else
constexpr int kBackVectors = 2, kBackTokens = 4;
#endif

// Columns [column, column + kVectors * kLanes) of kTokens rows of the output.
template <int kVectors, int kTokens, class Weight>
inline void back_tile(const MatmulBack& a, std::int64_t column, std::int64_t token) {
  const auto* weight = static_cast<const Weight*>(a.weight) + column;
  const float* grad = a.grad + token * a.out_features;
  Floats sum[kTokens][kVectors] = {};
  for (std::int64_t r = 0; r < a.out_features; ++r, weight += a.in_features) {
    Floats w[kVectors];
    for (int v = 0; v < kVectors; ++v) w[v] = load(weight + v * kLanes);
    for (int t = 0; t < kTokens; ++t) {
      const Floats g = broadcast(grad[t * a.out_features + r]);
      for (int v = 0; v < kVectors; ++v) sum[t][v] += g * w[v];
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    const std::int64_t row = a.out_rows != nullptr ? a.out_rows[token + t] : token + t;
    float* out = a.out + row * a.in_features + column;
    for (int v = 0; v < kVectors; ++v) {
      store(out + v * kLanes, load(out + v * kLanes) + sum[t][v]);
    }
  }
}

template <int kTokens, class Weight>
void back_columns(const MatmulBack& a, std::int64_t token) {
  std::int64_t column = 0;
  for (; column + kBackVectors * kLanes <= a.in_features; column += kBackVectors * kLanes) {
    back_tile<kBackVectors, kTokens, Weight>(a, column, token);
  }
  for (; column + kLanes <= a.in_features; column += kLanes) {
    back_tile<1, kTokens, Weight>(a, column, token);
  }
  const auto* weight = static_cast<const Weight*>(a.weight);
  for (; column < a.in_features; ++column) {
    for (int t = 0; t < kTokens; ++t) {
      const std::int64_t row = a.out_rows != nullptr ? a.out_rows[token + t] : token + t;
      float sum = 0;
      for (std::int64_t r = 0; r < a.out_features; ++r) {
        sum +=
            a.grad[(token + t) * a.out_features + r] * scalar(weight + r * a.in_features + column);
      }
      a.out[row * a.in_features + column] += sum;
    }
  }
}

template <class Weight>
void matmul_back(const MatmulBack& a) {
  std::int64_t token = 0;
  for (; token + kBackTokens <= a.n_tokens; token += kBackTokens) {
    back_columns<kBackTokens, Weight>(a, token);
  }
  for (; token < a.n_tokens; ++token) back_columns<1, Weight>(a, token);
}

void add_scaled(const float* x, float factor, std::int64_t n, float* out) {
  for_vectors(n, [&](std::int64_t i, int lanes) {
    store_part(out + i, load_part(out + i, lanes) + load_part(x + i, lanes) * factor, lanes);
  });
}

float silu_multiply_back(float* gate, float* up, const float* grad, float factor, std::int64_t n) {
  Floats along = {};
  for_vectors(n, [&](std::int64_t i, int lanes) {
    const Floats g = load_part(gate + i, lanes);
    const Floats u = load_part(up + i, lanes);
    const Floats by_hidden = load_part(grad + i, lanes);
    const Floats sigmoid = 1.0F / (exponential(-g) + 1.0F);
    const Floats activated = g * sigmoid;
    along += by_hidden * activated * u;
    const Floats scaled = by_hidden * factor;
    store_part(gate + i, scaled * u * sigmoid * (1.0F + g * (1.0F - sigmoid)), lanes);
    store_part(up + i, scaled * activated, lanes);
  });
  return reduce(along);
}

float exponentials(float* x, float largest, std::int64_t n) {
  Floats sum = {};
  for_vectors(n, [&](std::int64_t i, int lanes) {
    store_part(x + i, exponential(load_part(x + i, lanes) - largest), lanes);
    sum += load_part(x + i, lanes);
  });
  return reduce(sum);
}

}  // namespace

extern const VectorKernels ENGRAMD_VECTOR_TABLE;
const VectorKernels ENGRAMD_VECTOR_TABLE = {
    .name = ENGRAMD_VECTOR_NAME,
    .matmul_bf16 = matmul<std::uint16_t>,
    .matmul_f32 = matmul<float>,
    .sum_of_squares = sum_of_squares,
    .dot = dot,
    .scale_by = scale_by,
    .weighted_sum = weighted_sum,
    .mix_streams = mix_streams,
    .silu_multiply = silu_multiply,
    .weighted_rows_bf16 = weighted_rows_bf16,
    .attend_block = attend_block,
    .widen_bf16 = widen_bf16,
    .dot_weighted = dot_weighted,
    .convolve = convolve,
    .add = add,
    .matmul_back_bf16 = matmul_back<std::uint16_t>,
    .matmul_back_f32 = matmul_back<float>,
    .add_scaled = add_scaled,
    .silu_multiply_back = silu_multiply_back,
    .exponentials = exponentials,
};

}  // namespace engramd::kernels
