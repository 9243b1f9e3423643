// TokenTrie: a vocabulary as a tree of bytes, so that one walk tells which of its tokens fit; and
// sets of tokens. Special tokens are not in it. Built once per model.
// Threads: immutable but for a cache of walks, which belongs to the engine thread.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "config/result.h"
#include "engine/runtime/constraint/string_scan.h"
#include "engine/tokenizer/tokenizer.h"

namespace engramd::engine {

class TokenSet {
 public:
  explicit TokenSet(std::int64_t vocab_size)
      : words_(static_cast<std::size_t>((vocab_size + 63) / 64)) {}
  void add(TokenId id) { words_[index(id)] |= bit(id); }
  void add(const TokenSet& other) {
    for (std::size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  void clear() { words_.assign(words_.size(), 0); }
  bool contains(TokenId id) const { return (words_[index(id)] & bit(id)) != 0; }
  template <class Function>
  void for_each(const Function& function) const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      for (std::uint64_t left = words_[i]; left != 0; left &= left - 1) {
        function(static_cast<TokenId>(i * 64 + static_cast<std::size_t>(std::countr_zero(left))));
      }
    }
  }
  bool empty() const;

 private:
  static std::size_t index(TokenId id) { return static_cast<std::size_t>(id) / 64; }
  static std::uint64_t bit(TokenId id) {
    return std::uint64_t{1} << (static_cast<unsigned>(id) % 64U);
  }
  std::vector<std::uint64_t> words_;
};

class TokenTrie {
 public:
  // Refused: a vocabulary in which a byte that JSON may need is no token by itself, so that a text
  // could not always go on.
  static Result<std::shared_ptr<TokenTrie>> build(const Tokenizer& tokenizer);

  struct Node {
    std::uint8_t byte = 0;
    bool quote_below = false;  // in this byte or one below it
    std::int32_t end = 0;      // children are [own index + 1, end), each with its own end
    std::int32_t ids_begin = 0, ids_end = 0;  // tokens that are complete here
  };
  const std::vector<Node>& nodes() const { return nodes_; }
  // [ids_begin, ids_end) of a node
  const std::vector<TokenId>& ids() const { return ids_; }
  std::int64_t vocab_size() const { return tokenizer_->vocab_size(); }
  std::string_view bytes(TokenId id) const { return tokenizer_->token_bytes(id); }

  // The tokens that stay inside a JSON string which is at `scan` and takes characters_max more.
  const TokenSet& inside_string(StringScan scan, std::int64_t characters_max);

 private:
  explicit TokenTrie(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  void collect_inside(std::int32_t begin, std::int32_t end, StringScan scan,
                      std::int64_t characters_max, TokenSet& tokens) const;

  const Tokenizer* tokenizer_;
  std::vector<Node> nodes_;
  std::vector<TokenId> ids_;
  std::int64_t token_bytes_max_ = 0;
  std::map<std::pair<int, std::int64_t>, TokenSet> inside_string_;
};

}  // namespace engramd::engine
