#include "engine/runtime/constraint/string_scan.h"

#include <string_view>

namespace engramd::engine {
namespace {

bool is_between(std::uint8_t byte, int low, int high) {
  return byte >= low && byte <= high;
}
bool is_hex(std::uint8_t byte) {
  return is_between(byte, '0', '9') || is_between(byte | 0x20, 'a', 'f');
}

}  // namespace

StringScan StringScan::at(int place) {
  StringScan scan;
  scan.place_ = static_cast<Place>(place);
  return scan;
}

StringScan::Step StringScan::push(std::uint8_t byte) {
  switch (place_) {
    case Place::kBetween:
      return begin(byte);
    case Place::kEscape:
      return escape(byte);
    case Place::kHex1:
    case Place::kHex2:
    case Place::kHex2Low:
    case Place::kHex3:
    case Place::kHex4:
      return hex(byte);
    default:
      return tail(byte);
  }
}

StringScan::Step StringScan::begin(std::uint8_t byte) {
  if (byte == '"') return Step::kCloses;
  if (byte == '\\') return go(Place::kEscape, Step::kBegins);
  if (byte < 0x20) return Step::kRefused;
  if (byte < 0x80) return Step::kBegins;
  if (is_between(byte, 0xC2, 0xDF)) return go(Place::kTail1, Step::kBegins);
  if (byte == 0xE0) return go(Place::kTailE0, Step::kBegins);
  if (byte == 0xED) return go(Place::kTailED, Step::kBegins);
  if (is_between(byte, 0xE1, 0xEF)) return go(Place::kTail2, Step::kBegins);
  if (byte == 0xF0) return go(Place::kTailF0, Step::kBegins);
  if (byte == 0xF4) return go(Place::kTailF4, Step::kBegins);
  if (is_between(byte, 0xF1, 0xF3)) return go(Place::kTail3, Step::kBegins);
  return Step::kRefused;
}

StringScan::Step StringScan::escape(std::uint8_t byte) {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  if (byte == 'u') return go(Place::kHex1);
  const bool known = kLetters.find(static_cast<char>(byte)) != std::string_view::npos;
  return known ? go(Place::kBetween) : Step::kRefused;
}

StringScan::Step StringScan::hex(std::uint8_t byte) {
  if (!is_hex(byte)) return Step::kRefused;
  switch (place_) {
    case Place::kHex1:
      return go((byte | 0x20) == 'd' ? Place::kHex2Low : Place::kHex2);
    case Place::kHex2Low:
      return is_between(byte, '0', '7') ? go(Place::kHex3) : Step::kRefused;
    case Place::kHex2:
      return go(Place::kHex3);
    case Place::kHex3:
      return go(Place::kHex4);
    default:
      return go(Place::kBetween);
  }
}

StringScan::Step StringScan::tail(std::uint8_t byte) {
  int low = 0x80;
  int high = 0xBF;
  Place next = Place::kBetween;
  switch (place_) {
    case Place::kTailE0:
      low = 0xA0;
      next = Place::kTail1;
      break;
    case Place::kTailED:
      high = 0x9F;
      next = Place::kTail1;
      break;
    case Place::kTailF0:
      low = 0x90;
      next = Place::kTail2;
      break;
    case Place::kTailF4:
      high = 0x8F;
      next = Place::kTail2;
      break;
    case Place::kTail3:
      next = Place::kTail2;
      break;
    case Place::kTail2:
      next = Place::kTail1;
      break;
    default:
      break;
  }
  return is_between(byte, low, high) ? go(next) : Step::kRefused;
}

}  // namespace engramd::engine
