#include "engine/tokenizer/utf8.h"

#include <cstring>

namespace engramd::engine {
namespace {

struct SequenceRule {      // one row of Unicode table 3-7
  std::size_t length = 0;  // 0: no sequence starts with this byte
  unsigned char second_low = 0x80;
  unsigned char second_high = 0xBF;
};

SequenceRule sequence_rule(unsigned char lead) {
  if (lead < 0x80) return {1};
  if (lead < 0xC2) return {};
  if (lead < 0xE0) return {2};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

// May `byte` follow the `held` bytes (1 to 3, valid so far) of a sequence?
bool continues(std::string_view held, unsigned char byte) {
  const SequenceRule rule = sequence_rule(static_cast<unsigned char>(held[0]));
  return held.size() == 1 ? rule.second_low <= byte && byte <= rule.second_high
                          : 0x80 <= byte && byte <= 0xBF;
}

}  // namespace

std::size_t first_invalid_utf8(std::string_view text) {
  std::size_t position = 0;
  while (position < text.size()) {
    std::uint64_t eight = 0;
    if (position + sizeof eight <= text.size()) {
      std::memcpy(&eight, text.data() + position, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        position += sizeof eight;
        continue;
      }
    }
    const auto lead = static_cast<unsigned char>(text[position]);
    const std::size_t length = sequence_rule(lead).length;
    if (length == 0 || position + length > text.size()) return position;
    for (std::size_t i = 1; i < length; ++i) {
      if (!continues(text.substr(position, i), static_cast<unsigned char>(text[position + i]))) {
        return position;
      }
    }
    position += length;
  }
  return text.size();
}

void append_utf8(std::string& text, char32_t point) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xC0 | point >> 6);
    put(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    put(0xE0 | point >> 12);
    put(0x80 | (point >> 6 & 0x3F));
    put(0x80 | (point & 0x3F));
  } else {
    put(0xF0 | point >> 18);
    put(0x80 | (point >> 12 & 0x3F));
    put(0x80 | (point >> 6 & 0x3F));
    put(0x80 | (point & 0x3F));
  }
}

void append_lossy_utf8(std::string& text, std::string& pending, std::string_view bytes) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (!pending.empty()) {
      if (continues(pending, byte)) {
        pending.push_back(c);
        if (pending.size() == sequence_rule(static_cast<unsigned char>(pending[0])).length) {
          text += pending;
          pending.clear();
        }
        continue;
      }
      text += kReplacementCharacter;
      pending.clear();
    }
    const std::size_t length = sequence_rule(byte).length;
    if (length == 1) {
      text.push_back(c);
    } else if (length == 0) {
      text += kReplacementCharacter;
    } else {
      pending.push_back(c);
    }
  }
}

}  // namespace engramd::engine
