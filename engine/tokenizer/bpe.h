// Bpe: byte-pair encoding of one piece of text: of all neighbouring pairs, the one that was learnt
// first is merged, leftmost first, until no pair is known. Immutable; any thread may encode.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/tokenizer/vocabulary.h"

namespace engramd::engine {

struct Merge {
  TokenId left = 0;
  TokenId right = 0;
  TokenId result = 0;
};

class Bpe {
 public:
  // byte_ids: token of each single byte, -1 where there is none (such bytes vanish).
  // merges: in the order they were learnt; of two equal pairs the later one counts, as in the
  // Hugging Face library.
  Bpe(const std::array<TokenId, 256>& byte_ids, const std::vector<Merge>& merges);

  // Appends the tokens of `piece`. Linear-logarithmic in its length.
  void encode(std::string_view piece, std::vector<TokenId>& ids) const;

 private:
  static constexpr std::uint32_t kNoRank = ~std::uint32_t{0};
  struct Entry {
    TokenId left = -1;  // -1: free
    TokenId right = -1;
    std::uint32_t rank = kNoRank;
    TokenId result = -1;
  };

  std::size_t slot_of(TokenId left, TokenId right) const;
  const Entry& find(TokenId left, TokenId right) const;  // rank kNoRank: no such merge
  void merge_short(TokenId* symbols, std::size_t n_symbols, std::vector<TokenId>& ids) const;
  void merge_long(std::string_view piece, std::vector<TokenId>& ids) const;

  std::array<TokenId, 256> byte_ids_;
  std::vector<Entry> entries_;  // open addressing
  std::size_t mask_ = 0;
};

}  // namespace engramd::engine
