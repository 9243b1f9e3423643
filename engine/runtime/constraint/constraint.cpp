#include "engine/runtime/constraint/constraint.h"

#include <algorithm>
#include <utility>

#include "config/assert.h"

namespace engramd::engine {
namespace {

// Open choices that are followed at once. Each can be completed by itself, so dropping more of them
// only narrows what may be written.
constexpr std::size_t kStatesMax = 64;

}  // namespace

Constraint::Constraint(std::shared_ptr<const JsonGrammar> grammar, std::shared_ptr<TokenTrie> trie)
    : grammar_(std::move(grammar)),
      trie_(std::move(trie)),
      automaton_(*grammar_),
      states_{automaton_.start()},
      allowed_(trie_->vocab_size()) {}

void Constraint::push(std::uint8_t byte, const std::vector<JsonState>& states,
                      std::vector<JsonState>& out) {
  out.clear();
  for (const JsonState& state : states) automaton_.step(state, byte, out);
  if (out.size() < 2) return;
  auto end = out.begin();
  for (auto it = out.begin(); it != out.end() && end - out.begin() < std::ptrdiff_t{kStatesMax};
       ++it) {
    if (std::find(out.begin(), end, *it) == end) *end++ = *it;
  }
  out.erase(end, out.end());
}

const TokenSet& Constraint::allowed() {
  allowed_.clear();
  const auto n_nodes = static_cast<std::int32_t>(trie_->nodes().size());
  const auto first_outside =
      std::stable_partition(states_.begin(), states_.end(),
                            [this](const JsonState& state) { return automaton_.in_string(state); });
  if (levels_.empty()) levels_.emplace_back();
  levels_[0].assign(first_outside, states_.end());
  if (!levels_[0].empty()) walk(0, n_nodes, 0, false);
  // Most of a vocabulary stays inside a string: those tokens are known, the rest has a quote.
  levels_[0].assign(states_.begin(), first_outside);
  for (auto it = states_.begin(); it != first_outside; ++it) {
    allowed_.add(trie_->inside_string(it->scan, automaton_.characters_left(*it)));
  }
  if (!levels_[0].empty()) walk(0, n_nodes, 0, true);
  return allowed_;
}

// Adds the tokens of nodes [begin, end) and below that levels_[depth] allows.
void Constraint::walk(std::int32_t begin, std::int32_t end, std::size_t depth, bool quotes_only) {
  if (levels_.size() <= depth + 1) levels_.resize(depth + 2);
  const auto& nodes = trie_->nodes();
  for (std::int32_t i = begin; i < end; i = nodes[static_cast<std::size_t>(i)].end) {
    const TokenTrie::Node& node = nodes[static_cast<std::size_t>(i)];
    if (quotes_only && !node.quote_below) continue;
    const std::size_t stack_size = automaton_.stack_size();
    push(node.byte, levels_[depth], levels_[depth + 1]);
    if (!levels_[depth + 1].empty()) {
      for (std::int32_t id = node.ids_begin; id < node.ids_end; ++id) {
        allowed_.add(trie_->ids()[static_cast<std::size_t>(id)]);
      }
      // Behind the closing quote everything counts.
      const bool inside =
          std::all_of(levels_[depth + 1].begin(), levels_[depth + 1].end(),
                      [this](const JsonState& state) { return automaton_.in_string(state); });
      walk(i + 1, node.end, depth + 1, quotes_only && inside);
    }
    automaton_.rewind(stack_size);
  }
}

bool Constraint::may_end() const {
  return std::any_of(states_.begin(), states_.end(),
                     [this](const JsonState& state) { return automaton_.may_end(state); });
}

bool Constraint::must_end() const {
  return std::all_of(states_.begin(), states_.end(),
                     [](const JsonState& state) { return state.phase == JsonState::Phase::kEnd; });
}

void Constraint::accept(TokenId token) {
  std::vector<JsonState> next;
  for (const char c : trie_->bytes(token)) {
    push(static_cast<std::uint8_t>(c), states_, next);
    states_.swap(next);
  }
  ENGRAMD_ASSERT(!states_.empty());
}

}  // namespace engramd::engine
