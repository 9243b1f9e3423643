// Normalizer: Unicode normalization form C through utf8proc, and where each byte came from.
// Immutable; any thread may normalize.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/regex.h"

namespace engramd::engine {

class NfcNormalizer {
 public:
  NfcNormalizer();

  bool is_normalized(std::string_view text) const;

  // The NFC form of `text` (valid UTF-8). If `origins` is given, it gets one span of `text` per
  // byte of the result: the character that the library says it stems from (for a composed
  // character, the first of its parts).
  std::string normalize(std::string_view text, std::vector<Span>* origins = nullptr) const;

 private:
  // May this code point change, or combine with or move past the one in front of it?
  bool is_active(char32_t point) const { return active_[point]; }

  std::vector<bool> active_;  // [0x110000], by code point
};

}  // namespace engramd::engine
