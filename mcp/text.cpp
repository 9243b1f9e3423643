#include "mcp/text.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace engramd::mcp {
namespace {

constexpr char32_t kReplacement = 0xFFFD;
constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

struct CodePoint {
  char32_t value = kReplacement;
  std::size_t bytes = 1;
  bool valid = false;
};

// One code point by the rules of RFC 3629 (no overlong forms, no surrogates, at most U+10FFFF).
CodePoint decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {};
  char32_t value = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3Fu);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < kSmallest[length] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
    return {};
  }
  return {value, length, true};
}

bool is_hidden(char32_t c) {
  if (c < 0x20) return c != '\n' && c != '\t';
  return (c >= 0x7F && c <= 0x9F) || c == 0x200B || c == 0x200E || c == 0x200F ||
         (c >= 0x202A && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF ||
         (c >= 0xE0000 && c <= 0xE007F);
}

// Bytes of the escape sequence that starts at the ESC in front (ECMA-48: CSI ends at a byte in
// 0x40-0x7E; OSC, DCS and the other strings at BEL or ESC \).
std::size_t escape_sequence_bytes(std::string_view text) {
  if (text.size() < 2) return text.size();
  const char kind = text[1];
  if (kind == '[') {
    std::size_t i = 2;
    while (i < text.size() && text[i] >= 0x20 && text[i] <= 0x3F) ++i;
    return i < text.size() && text[i] >= 0x40 && text[i] <= 0x7E ? i + 1 : i;
  }
  if (kind == ']' || kind == 'P' || kind == 'X' || kind == '^' || kind == '_') {
    const std::size_t end = text.find_first_of("\a\x1B\n", 2);
    if (end == std::string_view::npos) return text.size();
    if (text[end] == '\n') return end;  // never closed: give back the rest of the text
    return text.substr(end, 2) == "\x1B\\" ? end + 2 : end + (text[end] == '\a');
  }
  return kind >= 0x30 && kind <= 0x7E ? 2 : 1;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string sanitise_text(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    if (text[0] == '\x1B') {
      text.remove_prefix(escape_sequence_bytes(text));
      continue;
    }
    const CodePoint point = decode(text);
    if (!point.valid) {
      clean += kReplacementUtf8;
    } else if (!is_hidden(point.value)) {
      clean += text.substr(0, point.bytes);
    }
    text.remove_prefix(point.bytes);
  }
  return clean;
}

std::string_view cut_at_code_point(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  std::size_t end = bytes_max;
  while (end > 0 && (static_cast<std::uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

std::string quote(std::string_view text) {
  constexpr std::size_t kQuotedBytesMax = 60;
  std::string clean = sanitise_text(cut_at_code_point(text, kQuotedBytesMax));
  std::replace(clean.begin(), clean.end(), '\n', ' ');
  return '"' + clean + (text.size() > kQuotedBytesMax ? "...\"" : "\"");
}

std::string suggest(std::string_view name, const std::vector<std::string>& known) {
  constexpr std::size_t kNameBytesMax = 64;  // the distance is quadratic and the name a stranger's
  if (name.size() > kNameBytesMax) return {};
  std::size_t best = name.size() / 3 + 2;
  const std::string* nearest = nullptr;
  for (const std::string& candidate : known) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance >= best || distance >= candidate.size()) continue;
    best = distance;
    nearest = &candidate;
  }
  return nearest ? " (did you mean \"" + *nearest + "\"?)" : std::string();
}

}  // namespace engramd::mcp
