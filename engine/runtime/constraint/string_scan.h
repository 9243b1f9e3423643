// StringScan: the inside of a JSON string, byte by byte: UTF-8, escapes, no control characters, no
// halves of surrogate pairs. Plain value.
#pragma once

#include <cstdint>

namespace engramd::engine {

class StringScan {
 public:
  enum class Step : std::uint8_t {
    kRefused,
    kInside,  // in the middle of a character
    kBegins,  // a character begins, and may be complete with it
    kCloses,  // the quotation mark at the end
  };
  Step push(std::uint8_t byte);

  int place() const { return static_cast<int>(place_); }  // where in a character: 0 to kPlaces - 1
  static StringScan at(int place);
  static constexpr int kPlaces = 14;
  friend bool operator==(const StringScan&, const StringScan&) = default;

 private:
  enum class Place : std::uint8_t {
    kBetween,
    kEscape,   // behind a backslash
    kHex1,     // \u, four digits to come
    kHex2,     // three
    kHex2Low,  // three, the first of them below 8: D800 to DFFF are no characters
    kHex3,
    kHex4,
    kTail1,  // one byte of UTF-8 to come
    kTail2,
    kTail3,
    kTailE0,  // two, the first from A0: shorter forms are not allowed (RFC 3629, section 4)
    kTailED,  // two, the first below A0: surrogates
    kTailF0,  // three, the first from 90
    kTailF4,  // three, the first below 90: U+10FFFF is the last
  };
  Step begin(std::uint8_t byte);
  Step escape(std::uint8_t byte);
  Step hex(std::uint8_t byte);
  Step tail(std::uint8_t byte);
  Step go(Place place, Step step = Step::kInside) {
    place_ = place;
    return step;
  }

  Place place_ = Place::kBetween;
};

}  // namespace engramd::engine
