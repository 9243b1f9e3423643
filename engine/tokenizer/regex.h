// Regex: the regular expressions of tokenizer.json, matched by PCRE2 on *symbols*. Every set of
// code points that a pattern names (a letter, a class, \p{L}) is taken from our own Unicode tables;
// code points that no set of the pattern tells apart share one symbol, and pattern and text are
// rewritten into these one-byte symbols. So PCRE2 only decides the structure: its older Unicode
// tables do not matter, and its fast 8-bit matcher is enough.
// Immutable after compile(): any thread may match, each with its own Scratch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"

namespace engramd::engine {

struct Span {  // half-open range of bytes
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  friend bool operator==(const Span&, const Span&) = default;
};

class Regex {
 public:
  // Syntax: literals, classes, \s \S \p{..} \P{..} \r \n \t \xHH, groups, (?i:..) around ASCII,
  // look-around and greedy, lazy or possessive quantifiers. Anything else is an error that names
  // it.
  static Result<Regex> compile(std::string_view pattern);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  class Scratch {  // buffers that one thread reuses between calls
   public:
    Scratch();
    ~Scratch();

   private:
    friend class Regex;
    struct MatchData;
    std::string symbols_;
    std::unique_ptr<MatchData> match_data_;
  };
  // Appends the leftmost matches in `text` (valid UTF-8), each moved by `base`. A pattern that
  // needs too many steps on this text is an error.
  Result<void> find_all(std::string_view text, std::uint32_t base, Scratch& scratch,
                        std::vector<Span>& matches) const;

 private:
  struct Impl;
  explicit Regex(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace engramd::engine
