// Constraint: holds one answer to a grammar, token by token. Before each token: which may come;
// after it: where the text is now. At any point the text can still be completed, and every complete
// text fits the grammar. Engine thread only. Not here: grammars, sampling.
#pragma once

#include <memory>
#include <vector>

#include "engine/runtime/constraint/json_automaton.h"
#include "engine/runtime/constraint/token_trie.h"

namespace engramd::engine {

class Constraint {
 public:
  Constraint(std::shared_ptr<const JsonGrammar> grammar, std::shared_ptr<TokenTrie> trie);

  const TokenSet& allowed();   // never empty unless must_end()
  bool may_end() const;        // end-of-sentence is allowed too
  bool must_end() const;       // nothing else is
  void accept(TokenId token);  // one of the allowed

 private:
  void push(std::uint8_t byte, const std::vector<JsonState>& states, std::vector<JsonState>& out);
  void walk(std::int32_t begin, std::int32_t end, std::size_t depth, bool quotes_only);

  std::shared_ptr<const JsonGrammar> grammar_;
  std::shared_ptr<TokenTrie> trie_;
  JsonAutomaton automaton_;
  std::vector<JsonState> states_;
  std::vector<std::vector<JsonState>> levels_;  // of a walk, per byte of depth
  TokenSet allowed_;
};

}  // namespace engramd::engine
