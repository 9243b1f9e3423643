#include "engine/tokenizer/vocabulary.h"

#include <bit>

#include "engine/tokenizer/utf8.h"

namespace engramd::engine {
namespace {

struct ByteAlphabet {
  std::array<char32_t, 256> symbol_of_byte{};
  std::array<std::int16_t, 512> byte_of_symbol{};  // -1: not in the alphabet
};

constexpr ByteAlphabet make_byte_alphabet() {
  ByteAlphabet alphabet;
  for (auto& byte : alphabet.byte_of_symbol) byte = -1;
  char32_t next = 0x100;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    const char32_t symbol = printable ? byte : next++;
    alphabet.symbol_of_byte[byte] = symbol;
    alphabet.byte_of_symbol[symbol] = static_cast<std::int16_t>(byte);
  }
  return alphabet;
}

constexpr ByteAlphabet kByteAlphabet = make_byte_alphabet();

}  // namespace

void TokenIndex::build(const std::vector<std::string>& spellings,
                       const std::vector<bool>& included) {
  slots_.assign(std::bit_ceil(spellings.size() * 2 + 1), -1);
  mask_ = slots_.size() - 1;
  for (std::size_t id = 0; id < spellings.size(); ++id) {
    if (spellings[id].empty() || (!included.empty() && !included[id])) continue;
    std::size_t slot = std::hash<std::string_view>()(spellings[id]) & mask_;
    while (slots_[slot] >= 0) slot = (slot + 1) & mask_;
    slots_[slot] = static_cast<TokenId>(id);
  }
}

std::string byte_symbol(unsigned char byte) {
  std::string symbol;
  append_utf8(symbol, kByteAlphabet.symbol_of_byte[byte]);
  return symbol;
}

SpelledBytes bytes_of_spelling(std::string_view spelling) {
  SpelledBytes result;
  for (std::size_t position = 0; position < spelling.size();) {
    const char32_t symbol = next_code_point(spelling, position);
    const int byte = symbol < 512 ? kByteAlphabet.byte_of_symbol[symbol] : -1;
    if (byte < 0) return {std::string(spelling), false};
    result.bytes.push_back(static_cast<char>(byte));
  }
  result.in_byte_alphabet = true;
  return result;
}

}  // namespace engramd::engine
