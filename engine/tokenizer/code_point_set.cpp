#include "engine/tokenizer/code_point_set.h"

#include <algorithm>

#include "engine/tokenizer/unicode_classes.h"

namespace engramd::engine {

CodePointSet CodePointSet::named(std::string_view unicode_class) {
  CodePointSet set;
  const auto runs = unicode_class_runs(unicode_class);
  char32_t point = 0;
  for (std::size_t i = 0; i + 1 < runs.size(); i += 2) {
    point += runs[i];
    set.ranges_.push_back({point, point + runs[i + 1] - 1});
    point += runs[i + 1];
  }
  return set;
}

void CodePointSet::add(char32_t first, char32_t last) {
  ranges_.push_back({first, last});
  normalize();
}

void CodePointSet::add(const CodePointSet& other) {
  ranges_.insert(ranges_.end(), other.ranges_.begin(), other.ranges_.end());
  normalize();
}

CodePointSet CodePointSet::complement() const {
  CodePointSet set;
  char32_t point = 0;
  for (const Range& range : ranges_) {
    if (range.first > point) set.ranges_.push_back({point, range.first - 1});
    point = range.last + 1;
  }
  if (point <= kLastCodePoint) set.ranges_.push_back({point, kLastCodePoint});
  return set;
}

void CodePointSet::normalize() {
  std::sort(ranges_.begin(), ranges_.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  std::vector<Range> merged;
  for (const Range& range : ranges_) {
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  ranges_ = std::move(merged);
}

}  // namespace engramd::engine
