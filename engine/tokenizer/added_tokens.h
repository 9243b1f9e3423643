// AddedTokenMatcher: finds added tokens ("<|im_end|>") in text, leftmost first, of several at one
// place the longest. Immutable; any thread may search.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/regex.h"
#include "engine/tokenizer/vocabulary.h"

namespace engramd::engine {

class AddedTokenMatcher {
 public:
  struct Entry {
    std::string text;  // not empty
    TokenId id = 0;
  };
  explicit AddedTokenMatcher(std::vector<Entry> entries);

  struct Part {
    std::string_view text;
    TokenId id = -1;  // -1: text between added tokens
  };
  // Bytes of the longest entry that `text` begins with; 0: none.
  std::size_t length_at(std::string_view text) const;
  // Cuts `text` into non-empty parts that tile it.
  void split(std::string_view text, std::vector<Part>& parts) const;

 private:
  const Entry* longest_at(std::string_view text) const;
  std::vector<Entry> entries_;  // sorted by text
  std::array<bool, 256> is_first_byte_{};
};

}  // namespace engramd::engine
