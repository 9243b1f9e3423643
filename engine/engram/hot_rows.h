// HotRows: a bounded cache of row images with CLOCK replacement. A row enters without its
// reference bit, so that rows read once (most 3-grams and longer) leave before those that came
// back. One caller at a time.
#pragma once

#include <cstdint>
#include <vector>

namespace engramd::engine {

class HotRows {
 public:
  // As many rows as fit into `bytes_max`, the index included; may be none.
  HotRows(std::int64_t bytes_max, std::int64_t row_bytes);

  std::int64_t capacity() const { return static_cast<std::int64_t>(keys_.size()); }
  std::int64_t bytes() const;
  // nullptr: not here. The image stays where it is until the next insert().
  const std::uint8_t* find(std::int64_t key);
  void insert(std::int64_t key, const std::uint8_t* image);

 private:
  static constexpr std::int64_t kFree = -1;
  std::size_t home_of(std::int64_t key) const;
  std::size_t index_of(std::int64_t key) const;  // its slot in index_, or the free one it would get
  void erase(std::int64_t key);

  std::size_t row_bytes_;
  std::vector<std::uint8_t> images_;      // [capacity, row_bytes]
  std::vector<std::int64_t> keys_;        // [capacity], kFree: unused
  std::vector<std::uint8_t> referenced_;  // [capacity]
  std::vector<std::int32_t> index_;       // open addressing, a power of two; entry or -1
  std::size_t hand_ = 0;
};

}  // namespace engramd::engine
