// Vocabulary: token spellings by id and back, and the bytes that each token stands for.
// Immutable once filled; any thread may read.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace engramd::engine {

using TokenId = std::int32_t;

// Spelling -> id, by open addressing; the spellings stay where they are.
class TokenIndex {
 public:
  // Indexes every non-empty spelling whose `included` is true (all, if `included` is empty).
  void build(const std::vector<std::string>& spellings, const std::vector<bool>& included = {});
  TokenId find(const std::vector<std::string>& spellings, std::string_view spelling) const {
    std::size_t slot = std::hash<std::string_view>()(spelling) & mask_;
    while (!slots_.empty() && slots_[slot] >= 0) {
      if (spellings[static_cast<std::size_t>(slots_[slot])] == spelling) return slots_[slot];
      slot = (slot + 1) & mask_;
    }
    return -1;
  }

 private:
  std::vector<TokenId> slots_;  // -1: free
  std::size_t mask_ = 0;
};

// GPT-2's byte alphabet: printable Latin-1 characters stand for themselves, the other 68 bytes for
// U+0100 onwards (gpt-2 encoder.py, bytes_to_unicode).
std::string byte_symbol(unsigned char byte);

// The bytes of a spelling: by the byte alphabet if all its characters are in it, else its own
// UTF-8.
struct SpelledBytes {
  std::string bytes;
  bool in_byte_alphabet = false;
};
SpelledBytes bytes_of_spelling(std::string_view spelling);

}  // namespace engramd::engine
