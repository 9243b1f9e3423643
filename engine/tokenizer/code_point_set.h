// CodePointSet: a set of Unicode code points as sorted, disjoint, inclusive ranges.
// A value; confined to whoever holds it.
#pragma once

#include <string_view>
#include <vector>

namespace engramd::engine {

class CodePointSet {
 public:
  struct Range {
    char32_t first = 0;
    char32_t last = 0;  // inclusive
    friend bool operator==(const Range&, const Range&) = default;
  };
  static constexpr char32_t kLastCodePoint = 0x10FFFF;

  // Members of a class of unicode_classes.h; empty for an unknown name.
  static CodePointSet named(std::string_view unicode_class);

  void add(char32_t first, char32_t last);
  void add(const CodePointSet& other);
  CodePointSet complement() const;

  bool empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }
  friend bool operator==(const CodePointSet&, const CodePointSet&) = default;

 private:
  void normalize();
  std::vector<Range> ranges_;
};

}  // namespace engramd::engine
