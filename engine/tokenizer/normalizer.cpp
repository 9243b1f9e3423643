#include "engine/tokenizer/normalizer.h"

#include <algorithm>

#include <utf8proc.h>

#include "engine/tokenizer/code_point_set.h"
#include "engine/tokenizer/utf8.h"

namespace engramd::engine {
namespace {

// Hugging Face's library normalizes by the tables of Unicode 9. These are the younger code points
// that utf8proc 2.8 (Unicode 15) would move or combine and the library leaves alone: found by
// normalizing every mark next to every combining class with tokenizers 0.23.2.
constexpr CodePointSet::Range kYoungerThanLibrary[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},
    {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},   {0x10D24, 0x10D27},
    {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85},
    {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x11930, 0x11930}, {0x11935, 0x11935}, {0x11938, 0x11938}, {0x1193D, 0x1193E},
    {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47},
    {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97},
    {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136},
    {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}};

bool is_younger(char32_t code) {
  const auto* after = std::upper_bound(
      std::begin(kYoungerThanLibrary), std::end(kYoungerThanLibrary), code,
      [](char32_t value, const CodePointSet::Range& range) { return value < range.first; });
  return after != std::begin(kYoungerThanLibrary) && code <= std::prev(after)->last;
}

struct Point {
  char32_t code = 0;
  int combining_class = 0;
  // How the number of code points changes here, the library's way to align: +1 was inserted, -n
  // swallowed the n originals behind its own.
  int change = 0;
};

int combining_class(char32_t code) {
  if (is_younger(code)) return 0;
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(code))->combining_class;
}

// The primary composite of two code points, or 0.
char32_t compose(char32_t first, char32_t second) {
  if (is_younger(first) || is_younger(second)) return 0;
  utf8proc_int32_t pair[] = {static_cast<utf8proc_int32_t>(first),
                             static_cast<utf8proc_int32_t>(second)};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  return utf8proc_normalize_utf32(pair, 2, options) == 1 ? static_cast<char32_t>(pair[0]) : 0;
}

// Full canonical decomposition of one code point; the result is in canonical order.
void append_decomposition(char32_t code, std::vector<Point>& points) {
  if (is_younger(code)) return points.push_back({code, 0, 0});
  utf8proc_int32_t parts[8];  // the longest canonical decomposition has 4
  int last_boundary_class = 0;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  const auto n_parts = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts, 8,
                                               options, &last_boundary_class);
  for (utf8proc_ssize_t i = 0; i < n_parts && i < 8; ++i) {
    const auto part = static_cast<char32_t>(parts[i]);
    points.push_back({part, combining_class(part), i == 0 ? 0 : 1});
  }
}

// Sorts each run of non-starters by combining class, stably (Unicode chapter 3, D109).
void order_canonically(std::vector<Point>& points) {
  for (auto run = points.begin(); run != points.end();) {
    if (run->combining_class == 0) {
      ++run;
      continue;
    }
    const auto end =
        std::find_if(run, points.end(), [](const Point& p) { return p.combining_class == 0; });
    std::stable_sort(run, end, [](const Point& a, const Point& b) {
      return a.combining_class < b.combining_class;
    });
    run = end;
  }
}

// Combines each starter with what is not blocked from it (Unicode chapter 3, D117).
void compose_in_place(std::vector<Point>& points) {
  constexpr std::size_t kNone = ~std::size_t{0};
  std::size_t n_out = 0;
  std::size_t starter = kNone;
  int last_class = -1;  // class of the last point kept behind the starter; -1: none yet
  for (const Point& point : points) {
    const bool blocked = last_class >= point.combining_class;
    const char32_t composite =
        starter != kNone && !blocked ? compose(points[starter].code, point.code) : 0;
    if (composite != 0) {
      points[starter].code = composite;
      points[starter].change += point.change - 1;
      continue;
    }
    if (point.combining_class == 0) {
      starter = n_out;
      last_class = -1;
    } else {
      last_class = point.combining_class;
    }
    points[n_out++] = point;
  }
  points.resize(n_out);
}

}  // namespace

NfcNormalizer::NfcNormalizer() : active_(CodePointSet::kLastCodePoint + 1) {
  // comb_index of a code point that can be the second of a pair; 0xFFFF: none (utf8proc 2.8).
  const auto is_second = [](const utf8proc_property_t* property) {
    return property->comb_index >= 0x8000 && property->comb_index != 0xFFFF;
  };
  for (char32_t code = 0; code <= CodePointSet::kLastCodePoint; ++code) {
    const auto* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(code));
    active_[code] = (property->combining_class != 0 || is_second(property)) && !is_younger(code);
  }
  const auto mark = [&](char32_t first, char32_t last) {
    for (char32_t code = first; code <= last; ++code) active_[code] = true;
  };
  mark(0x1161, 0x1175);  // Hangul vowels and
  mark(0x11A8, 0x11C2);  // final consonants compose by rule
  const CodePointSet changed = CodePointSet::named("ChangedByNfc");
  for (const auto& range : changed.ranges()) {
    mark(range.first, range.last);
  }
}

bool NfcNormalizer::is_normalized(std::string_view text) const {
  for (std::size_t position = 0; position < text.size();) {
    if (static_cast<unsigned char>(text[position]) < 0xCC) {  // below U+0300 nothing is active
      ++position;
    } else if (is_active(next_code_point(text, position))) {
      return false;
    }
  }
  return true;
}

std::string NfcNormalizer::normalize(std::string_view text, std::vector<Span>* origins) const {
  std::string result;
  result.reserve(text.size());
  std::vector<Point> points;
  // Each round takes one code point and the active ones behind it: nothing composes or moves
  // across the border in front of an inactive code point.
  for (std::size_t position = 0; position < text.size();) {
    const std::size_t begin = position;
    char32_t code = next_code_point(text, position);
    bool any_active = is_active(code);
    points.clear();
    append_decomposition(code, points);
    while (position < text.size()) {
      std::size_t after = position;
      code = next_code_point(text, after);
      if (!is_active(code)) break;
      append_decomposition(code, points);
      any_active = true;
      position = after;
    }
    if (!any_active) {
      result += text.substr(begin, position - begin);
      const Span whole{static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(position)};
      if (origins) origins->insert(origins->end(), position - begin, whole);
      continue;
    }
    order_canonically(points);
    compose_in_place(points);
    std::size_t original = begin;
    Span origin;
    const auto take_original = [&] {
      const std::size_t first = original;
      if (original < position) next_code_point(text, original);
      return Span{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(original)};
    };
    for (const Point& point : points) {
      if (point.change <= 0) origin = take_original();
      for (int skipped = point.change; skipped < 0; ++skipped) take_original();
      const std::size_t length_before = result.size();
      append_utf8(result, point.code);
      if (origins) origins->insert(origins->end(), result.size() - length_before, origin);
    }
  }
  return result;
}

}  // namespace engramd::engine
