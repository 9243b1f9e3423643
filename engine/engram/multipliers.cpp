#include "engine/engram/multipliers.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "config/assert.h"

namespace engramd::engine {
namespace {

__extension__ using Uint128 = unsigned __int128;

// numpy/random/bit_generator.pyx, SeedSequence.
class EntropyHash {
 public:
  EntropyHash(std::uint32_t start, std::uint32_t factor) : constant_(start), factor_(factor) {}
  std::uint32_t operator()(std::uint32_t value) {
    value ^= constant_;
    constant_ *= factor_;
    value *= constant_;
    return value ^ (value >> 16);
  }

 private:
  std::uint32_t constant_;
  std::uint32_t factor_;
};

std::uint32_t mix_words(std::uint32_t x, std::uint32_t y) {
  const std::uint32_t z = 0xCA01F9DDu * x - 0x4973F715u * y;
  return z ^ (z >> 16);
}

// pcg64.h: PCG_DEFAULT_MULTIPLIER_128.
constexpr Uint128 kPcgMultiplier =
    (static_cast<Uint128>(2549297995355413924u) << 64) + 4865540595714422341u;

// Half of the largest factor that keeps (V' - 1) * (2 half - 1) below 2^63.
std::uint64_t half_range(std::int64_t hashed_vocab_size) {
  ENGRAMD_ASSERT(hashed_vocab_size >= 1);
  constexpr std::int64_t kLargest = 0x7FFFFFFFFFFFFFFF;
  return static_cast<std::uint64_t>(std::max<std::int64_t>(1, kLargest / hashed_vocab_size / 2));
}

}  // namespace

std::array<std::uint64_t, 4> numpy_seed_sequence(std::uint64_t seed) {
  std::array<std::uint32_t, 4> pool{static_cast<std::uint32_t>(seed),
                                    static_cast<std::uint32_t>(seed >> 32), 0, 0};
  EntropyHash hash_in(0x43B0D7E5u, 0x931E8875u);
  for (std::uint32_t& word : pool) word = hash_in(word);
  for (std::size_t source = 0; source < 4; ++source) {
    for (std::size_t target = 0; target < 4; ++target) {
      if (source != target) pool[target] = mix_words(pool[target], hash_in(pool[source]));
    }
  }
  EntropyHash hash_out(0x8B51F9DDu, 0x58F38DEDu);
  std::array<std::uint64_t, 4> words{};
  for (std::size_t i = 0; i < 8; ++i) {
    words[i / 2] |= static_cast<std::uint64_t>(hash_out(pool[i % 4])) << (i % 2 * 32);
  }
  return words;
}

NumpyGenerator::NumpyGenerator(std::uint64_t seed) {
  const std::array<std::uint64_t, 4> words = numpy_seed_sequence(seed);
  increment_ = ((static_cast<Uint128>(words[2]) << 64 | words[3]) << 1) | 1;
  state_ = increment_;  // one step from state 0
  state_ += static_cast<Uint128>(words[0]) << 64 | words[1];
  state_ = state_ * kPcgMultiplier + increment_;
}

std::uint64_t NumpyGenerator::next64() {
  state_ = state_ * kPcgMultiplier + increment_;
  const auto high = static_cast<std::uint64_t>(state_ >> 64);
  const auto low = static_cast<std::uint64_t>(state_);
  return std::rotr(high ^ low, static_cast<int>(high >> 58));
}

std::uint32_t NumpyGenerator::next32() {
  if (kept_half_) {
    const std::uint32_t value = *kept_half_;
    kept_half_.reset();
    return value;
  }
  const std::uint64_t value = next64();
  kept_half_ = static_cast<std::uint32_t>(value >> 32);
  return static_cast<std::uint32_t>(value);
}

double NumpyGenerator::next_double() {
  return static_cast<double>(next64() >> 11) * 0x1p-53;
}

// Lemire's method (arXiv 1805.10941) on 32-bit or 64-bit draws, as numpy chooses by the bound.
std::int64_t NumpyGenerator::integer_below(std::uint64_t bound) {
  ENGRAMD_ASSERT(bound >= 1 && bound <= std::uint64_t{1} << 63);
  if (bound == 1) return 0;
  if (bound == std::uint64_t{1} << 32) return next32();
  if (bound < std::uint64_t{1} << 32) {
    const auto bound32 = static_cast<std::uint32_t>(bound);
    const std::uint32_t threshold = (0u - bound32) % bound32;
    std::uint64_t product = next32() * bound;
    while (static_cast<std::uint32_t>(product) < threshold) product = next32() * bound;
    return static_cast<std::int64_t>(product >> 32);
  }
  const std::uint64_t threshold = (std::uint64_t{0} - bound) % bound;
  Uint128 product = static_cast<Uint128>(next64()) * bound;
  while (static_cast<std::uint64_t>(product) < threshold) {
    product = static_cast<Uint128>(next64()) * bound;
  }
  return static_cast<std::int64_t>(product >> 64);
}

std::vector<std::uint64_t> demo_multipliers(std::int64_t seed, std::int64_t layer_id,
                                            std::int64_t hashed_vocab_size, int n) {
  const std::uint64_t half = half_range(hashed_vocab_size);
  NumpyGenerator generator(static_cast<std::uint64_t>(seed) +
                           10007 * static_cast<std::uint64_t>(layer_id));
  std::vector<std::uint64_t> multipliers;
  for (int i = 0; i < n; ++i) {
    multipliers.push_back(2 * static_cast<std::uint64_t>(generator.integer_below(half)) + 1);
  }
  return multipliers;
}

// splitmix64 (Vigna); transformers 5.24.0 starts it one step further than the usual form.
std::vector<std::uint64_t> qwen_multipliers(std::int64_t seed, std::int64_t layer_index,
                                            std::int64_t hashed_vocab_size, int n) {
  const std::uint64_t half = half_range(hashed_vocab_size);
  constexpr std::uint64_t kGamma = 0x9E3779B97F4A7C15u;
  std::uint64_t state =
      static_cast<std::uint64_t>(seed) + 10007 * static_cast<std::uint64_t>(layer_index) + kGamma;
  std::vector<std::uint64_t> multipliers;
  for (int i = 0; i < n; ++i) {
    state += kGamma;
    std::uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    multipliers.push_back(2 * ((z ^ (z >> 31)) % half) + 1);
  }
  return multipliers;
}

}  // namespace engramd::engine
