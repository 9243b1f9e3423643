// numpy's random stream, bit for bit, and the hash multipliers drawn from it. Pure functions.
// SeedSequence, PCG64 (XSL-RR 128/64) and the bounded-integer paths of numpy.random.Generator;
// numpy promises no stream stability, so the constants of shipped models are checked as well.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace engramd::engine {

// default_rng(seed)'s SeedSequence(seed).generate_state(4, uint64).
std::array<std::uint64_t, 4> numpy_seed_sequence(std::uint64_t seed);

class NumpyGenerator {  // numpy.random.default_rng(seed)
 public:
  explicit NumpyGenerator(std::uint64_t seed);
  std::uint64_t next64();
  std::uint32_t next32();  // low half first, the high half kept for the next 32-bit draw
  double next_double();    // (next64 >> 11) * 2^-53
  std::int64_t integer_below(std::uint64_t bound);  // integers(0, bound, dtype=int64)

 private:
  __extension__ using Uint128 = unsigned __int128;
  Uint128 state_ = 0;
  Uint128 increment_ = 0;
  std::optional<std::uint32_t> kept_half_;
};

// Demo rule: 2 r + 1, r from default_rng(seed + 10007 layer_id).integers(0, half, n).
std::vector<std::uint64_t> demo_multipliers(std::int64_t seed, std::int64_t layer_id,
                                            std::int64_t hashed_vocab_size, int n);
// Qwen3.8-Flash-Next rule: splitmix64(seed + 10007 * index among the Engram layers). The released
// model's seed is 1234.
std::vector<std::uint64_t> qwen_multipliers(std::int64_t seed, std::int64_t layer_index,
                                            std::int64_t hashed_vocab_size, int n);

}  // namespace engramd::engine
