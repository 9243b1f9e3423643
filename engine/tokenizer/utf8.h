// UTF-8, the few operations that this room needs. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace engramd::engine {

// Position of the first ill-formed byte, or text.size().
std::size_t first_invalid_utf8(std::string_view text);

// The code point at `position` of valid UTF-8; moves `position` behind it.
inline char32_t next_code_point(std::string_view text, std::size_t& position) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[position + i]));
  };
  const char32_t lead = byte(0);
  char32_t point = lead;
  std::size_t length = 1;
  if (lead >= 0xF0) {
    point = (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    length = 4;
  } else if (lead >= 0xE0) {
    point = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    length = 3;
  } else if (lead >= 0x80) {
    point = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
    length = 2;
  }
  position += length;
  return point;
}

inline bool is_utf8_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

void append_utf8(std::string& text, char32_t point);

// Appends `bytes` to `text`, where each maximal part of an ill-formed sequence becomes U+FFFD
// (Unicode chapter 3, "Substitution of Maximal Subparts"). `pending` carries an unfinished but so
// far valid sequence of 1 to 3 bytes from one call to the next.
void append_lossy_utf8(std::string& text, std::string& pending, std::string_view bytes);

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace engramd::engine
