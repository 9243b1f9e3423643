#include "engine/tokenizer/pre_tokenizer.h"

namespace engramd::engine {
namespace {

// Appends what `behavior` makes of one part of the text; the parts come in order and tile it.
class PieceWriter {
 public:
  PieceWriter(SplitBehavior behavior, std::vector<Span>& pieces)
      : behavior_(behavior), pieces_(pieces), first_(pieces.size()) {}

  void add(Span part, bool is_delimiter) {
    if (part.begin == part.end) return;
    const bool has_previous = pieces_.size() > first_;
    switch (behavior_) {
      case SplitBehavior::kRemoved:
        if (is_delimiter) return;
        break;
      case SplitBehavior::kIsolated:
        break;
      case SplitBehavior::kMergedWithPrevious:
        if (has_previous && is_delimiter && !was_delimiter_) return extend(part, is_delimiter);
        break;
      case SplitBehavior::kMergedWithNext:
        if (has_previous && !is_delimiter && was_delimiter_) return extend(part, is_delimiter);
        break;
      case SplitBehavior::kContiguous:
        if (has_previous && is_delimiter == was_delimiter_) return extend(part, is_delimiter);
        break;
    }
    pieces_.push_back(part);
    was_delimiter_ = is_delimiter;
  }

 private:
  void extend(Span part, bool is_delimiter) {
    pieces_.back().end = part.end;
    was_delimiter_ = is_delimiter;
  }

  SplitBehavior behavior_;
  std::vector<Span>& pieces_;
  std::size_t first_;
  bool was_delimiter_ = false;
};

}  // namespace

Result<PreTokenizer> PreTokenizer::create(const std::vector<SplitRule>& rules) {
  PreTokenizer result;
  for (const SplitRule& rule : rules) {
    auto regex = Regex::compile(rule.pattern);
    if (!regex) return regex.error();
    result.steps_.push_back({std::move(*regex), rule.behavior, rule.invert});
  }
  return result;
}

Result<void> PreTokenizer::split(std::string_view text, Scratch& scratch,
                                 std::vector<Span>& pieces) const {
  pieces.clear();
  if (!text.empty()) pieces.push_back({0, static_cast<std::uint32_t>(text.size())});
  for (const Step& step : steps_) {
    scratch.next.clear();
    for (const Span whole : pieces) {
      scratch.matches.clear();
      const auto found = step.regex.find_all(text.substr(whole.begin, whole.end - whole.begin),
                                             whole.begin, scratch.regex, scratch.matches);
      if (!found) return found.error();
      PieceWriter writer(step.behavior, scratch.next);
      std::uint32_t position = whole.begin;
      for (const Span match : scratch.matches) {
        writer.add({position, match.begin}, step.invert);
        writer.add(match, !step.invert);
        position = match.end;
      }
      writer.add({position, whole.end}, step.invert);
    }
    pieces.swap(scratch.next);
  }
  return {};
}

}  // namespace engramd::engine
