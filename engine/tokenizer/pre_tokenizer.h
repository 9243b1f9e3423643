// PreTokenizer: cuts normalized text into the pieces that byte-pair encoding may not merge across.
// All pre-tokenizers of tokenizer.json that we support are sequences of regular-expression splits.
// Immutable after create(): any thread may split, each with its own Scratch.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"
#include "engine/tokenizer/regex.h"

namespace engramd::engine {

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct SplitRule {
  std::string pattern;  // regular expression
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // what does not match is the delimiter
};

class PreTokenizer {
 public:
  static Result<PreTokenizer> create(const std::vector<SplitRule>& rules);

  struct Scratch {
    Regex::Scratch regex;
    std::vector<Span> matches;
    std::vector<Span> next;
  };
  // Replaces `pieces` by the non-empty pieces of `text` (valid UTF-8), in order.
  Result<void> split(std::string_view text, Scratch& scratch, std::vector<Span>& pieces) const;

 private:
  struct Step {
    Regex regex;
    SplitBehavior behavior;
    bool invert;
  };
  std::vector<Step> steps_;
};

}  // namespace engramd::engine
