// The pattern side of Regex: parses a pattern, gives each distinguishable kind of code point a
// one-byte symbol, and rewrites the pattern into these symbols. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"

namespace engramd::engine {

struct SymbolPattern {
  std::string pattern;                // for PCRE2, 8-bit, without UTF mode
  std::vector<std::uint8_t> symbols;  // [0x110000], by code point
};

Result<SymbolPattern> rewrite_to_symbols(std::string_view pattern);

}  // namespace engramd::engine
