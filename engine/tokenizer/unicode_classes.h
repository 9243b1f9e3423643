// Unicode classes as Hugging Face's tokenizers library sees them (Unicode 16; Digits: 17), because
// Debian's PCRE2 has the tables of Unicode 14. Names: s (white space), L, Lu, Ll, Lt, Lm, Lo, M, N,
// P, S, Digits (Nd, Nl, No) and ChangedByNfc (code points whose NFC form differs).
// Constant data; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace engramd::engine {

// Alternating run lengths: code points outside the class, then inside it, from U+0000 on.
// Empty for an unknown name.
std::span<const std::uint32_t> unicode_class_runs(std::string_view name);

}  // namespace engramd::engine
