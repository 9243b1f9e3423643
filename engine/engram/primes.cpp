#include "engine/engram/primes.h"

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <unordered_set>

namespace engramd::engine {
namespace {

__extension__ using Uint128 = unsigned __int128;

constexpr std::int64_t kBaseMax = std::int64_t{1} << 40;
constexpr std::int64_t kPrimesMax = 4096;  // the largest public layout has 48

// These bases decide every n below 3.3e24 (Sorenson and Webster, 2015).
constexpr std::array<std::uint64_t, 12> kWitnesses{2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};

std::uint64_t multiply_modulo(std::uint64_t a, std::uint64_t b, std::uint64_t n) {
  return static_cast<std::uint64_t>(static_cast<Uint128>(a) * b % n);
}

std::uint64_t power_modulo(std::uint64_t base, std::uint64_t exponent, std::uint64_t n) {
  std::uint64_t result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if (exponent & 1) result = multiply_modulo(result, base, n);
    base = multiply_modulo(base, base, n);
  }
  return result;
}

}  // namespace

bool is_prime(std::int64_t candidate) {
  if (candidate < 2) return false;
  const auto n = static_cast<std::uint64_t>(candidate);
  for (const std::uint64_t p : kWitnesses) {
    if (n % p == 0) return n == p;
  }
  std::uint64_t odd = n - 1;
  int twos = 0;
  for (; odd % 2 == 0; odd /= 2) ++twos;
  for (const std::uint64_t witness : kWitnesses) {  // Miller-Rabin
    std::uint64_t x = power_modulo(witness, odd, n);
    if (x == 1 || x == n - 1) continue;
    int squarings = 1;
    for (; squarings < twos && x != n - 1; ++squarings) x = multiply_modulo(x, x, n);
    if (x != n - 1) return false;
  }
  return true;
}

Result<std::vector<std::vector<std::vector<std::int64_t>>>> search_primes(
    int n_layers, const std::vector<std::int64_t>& vocab_size_per_order, int n_heads) {
  for (const std::int64_t base : vocab_size_per_order) {
    if (base < 2 || base > kBaseMax) {
      return invalid_argument("Engram vocab_size: expected 2 .. 2^40 for each order, got " +
                              std::to_string(base));
    }
  }
  const std::int64_t n_primes =
      std::int64_t{n_layers} * static_cast<std::int64_t>(vocab_size_per_order.size()) * n_heads;
  if (n_primes > kPrimesMax) {
    return invalid_argument("Engram layout: expected at most " + std::to_string(kPrimesMax) +
                            " columns (layers x orders x heads), got " + std::to_string(n_primes));
  }
  std::unordered_set<std::int64_t> used;
  // Everything between a base and its cursor is composite or used, so a restart may begin there.
  std::map<std::int64_t, std::int64_t> cursor_of_base;
  std::vector<std::vector<std::vector<std::int64_t>>> primes(static_cast<std::size_t>(n_layers));
  for (auto& layer : primes) {
    for (const std::int64_t base : vocab_size_per_order) {
      std::int64_t& cursor = cursor_of_base.try_emplace(base, base).first->second;
      std::vector<std::int64_t>& heads = layer.emplace_back();
      for (; heads.size() < static_cast<std::size_t>(n_heads); ++cursor) {
        if (is_prime(cursor) && used.insert(cursor).second) heads.push_back(cursor);
      }
    }
  }
  return primes;
}

}  // namespace engramd::engine
