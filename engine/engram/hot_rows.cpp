#include "engine/engram/hot_rows.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "config/assert.h"

namespace engramd::engine {
namespace {

// Key, reference bit and at most four index slots.
constexpr std::int64_t kOverheadBytes = sizeof(std::int64_t) + 1 + 4 * sizeof(std::int32_t);

}  // namespace

HotRows::HotRows(std::int64_t bytes_max, std::int64_t row_bytes)
    : row_bytes_(static_cast<std::size_t>(row_bytes)) {
  const auto capacity = static_cast<std::size_t>(std::clamp<std::int64_t>(
      bytes_max / (row_bytes + kOverheadBytes), 0, std::numeric_limits<std::int32_t>::max()));
  images_.resize(capacity * row_bytes_);
  keys_.assign(capacity, kFree);
  referenced_.assign(capacity, 0);
  index_.assign(std::bit_ceil(2 * capacity + 1), -1);
}

std::int64_t HotRows::bytes() const {
  return static_cast<std::int64_t>(images_.size() + keys_.size() * sizeof keys_[0] +
                                   referenced_.size() + index_.size() * sizeof index_[0]);
}

std::size_t HotRows::home_of(std::int64_t key) const {
  // Fibonacci hashing: the top bits of key * 2^64 / phi.
  const std::uint64_t mixed = static_cast<std::uint64_t>(key) * 0x9E3779B97F4A7C15U;
  return static_cast<std::size_t>(mixed >> 32) & (index_.size() - 1);
}

std::size_t HotRows::index_of(std::int64_t key) const {
  std::size_t at = home_of(key);
  while (index_[at] >= 0 && keys_[static_cast<std::size_t>(index_[at])] != key) {
    at = (at + 1) & (index_.size() - 1);
  }
  return at;
}

const std::uint8_t* HotRows::find(std::int64_t key) {
  const std::int32_t entry = index_[index_of(key)];
  if (entry < 0) return nullptr;
  referenced_[static_cast<std::size_t>(entry)] = 1;
  return images_.data() + static_cast<std::size_t>(entry) * row_bytes_;
}

void HotRows::erase(std::int64_t key) {
  const std::size_t mask = index_.size() - 1;
  std::size_t hole = index_of(key);
  ENGRAMD_ASSERT(index_[hole] >= 0);
  // Later entries of the run move up, so that no tombstones are needed.
  for (std::size_t at = (hole + 1) & mask; index_[at] >= 0; at = (at + 1) & mask) {
    const std::size_t home = home_of(keys_[static_cast<std::size_t>(index_[at])]);
    if (((at - home) & mask) < ((at - hole) & mask)) continue;
    index_[hole] = index_[at];
    hole = at;
  }
  index_[hole] = -1;
}

void HotRows::insert(std::int64_t key, const std::uint8_t* image) {
  ENGRAMD_ASSERT(key >= 0);
  if (keys_.empty() || index_[index_of(key)] >= 0) return;
  while (referenced_[hand_] != 0) {
    referenced_[hand_] = 0;
    hand_ = (hand_ + 1) % keys_.size();
  }
  if (keys_[hand_] != kFree) erase(keys_[hand_]);
  keys_[hand_] = key;
  std::memcpy(images_.data() + hand_ * row_bytes_, image, row_bytes_);
  index_[index_of(key)] = static_cast<std::int32_t>(hand_);
  hand_ = (hand_ + 1) % keys_.size();
}

}  // namespace engramd::engine
