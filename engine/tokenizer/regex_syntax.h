// The pattern side of Regex: parses a pattern, gives each distinguishable kind of code point a
// one-byte symbol, and rewrites the pattern into these symbols. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"

namespace engramd::engine {

// The symbol of each code point. Blocks of 256 code points that share one symbol share storage.
struct SymbolTable {
  static constexpr char32_t kBlock = 256;
  std::vector<std::uint16_t> block_of;  // [0x110000 / 256]; the first block is stored first
  std::vector<std::uint8_t> symbols;    // [n_blocks * 256]

  std::uint8_t operator[](char32_t point) const {
    return symbols[block_of[point / kBlock] * std::size_t{kBlock} + point % kBlock];
  }
};

struct SymbolPattern {
  std::string pattern;  // for PCRE2, 8-bit, without UTF mode
  SymbolTable symbols;
};

Result<SymbolPattern> rewrite_to_symbols(std::string_view pattern);

}  // namespace engramd::engine
