// JsonAutomaton: which bytes may come next in a text of a grammar, and what the text may be after
// each. A text can be in several states at once, where a choice is still open; every state it is in
// can be led to an end. States are small values; what encloses a value lies on a shared stack that
// only grows, so a state is copied at no cost and attempts are taken back by rewind().
// One thread. Not here: tokens (constraint).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/runtime/constraint/json_grammar.h"
#include "engine/runtime/constraint/string_scan.h"

namespace engramd::engine {

struct JsonState {
  enum class Phase : std::uint8_t {
    kValue,   // before a value
    kText,    // texts [low, high) of the node agree with what was written
    kString,  // inside; low: its characters so far
    kNumber,  // low: digits of this part
    kOpen,    // behind { or [
    kNext,    // behind a value of an object or array
    kItem,    // behind a comma and its space
    kComma,   // behind a comma
    kKey,     // in the key of property `index`
    kMapKey,  // in a key of a map, as kString
    kColon,   // before the colon
    kSpace,   // behind the colon
    kEnd,     // the text is complete, nothing may follow
  };
  enum class Part : std::uint8_t { kStart, kMinus, kZero, kDigits, kPoint, kFraction };

  Phase phase = Phase::kEnd;
  Part part = Part::kStart;  // of kNumber
  StringScan scan;           // of kString and kMapKey
  std::uint8_t depth = 0;    // objects and arrays that are open
  std::int32_t node = 0;
  std::int32_t index = 0;     // next property, or number of items
  std::int32_t position = 0;  // in a text or key
  std::int32_t low = 0, high = 0;
  std::int32_t parent = -1;  // on the stack: what goes on when this value is complete

  friend bool operator==(const JsonState&, const JsonState&) = default;
};

class JsonAutomaton {
 public:
  explicit JsonAutomaton(const JsonGrammar& grammar) : grammar_(&grammar) {}

  JsonState start() const;
  // Appends what `state` may be after `byte`; nothing: the byte is refused.
  void step(const JsonState& state, std::uint8_t byte, std::vector<JsonState>& out);
  bool may_end(const JsonState& state) const;  // the text so far is complete

  bool in_string(const JsonState& state) const {
    return state.phase == JsonState::Phase::kString || state.phase == JsonState::Phase::kMapKey;
  }
  // Of a state in a string: how many characters may still follow.
  std::int64_t characters_left(const JsonState& state) const;

  std::size_t stack_size() const { return stack_.size(); }
  void rewind(std::size_t stack_size) { stack_.resize(stack_size); }

 private:
  using Phase = JsonState::Phase;
  using Part = JsonState::Part;
  using States = std::vector<JsonState>;

  const JsonNode& node_of(const JsonState& state) const { return node(state.node); }
  const JsonNode& node(int index) const { return grammar_->nodes[static_cast<std::size_t>(index)]; }
  bool fits_below(int value_node, int depth) const;
  JsonState completed(const JsonState& state) const;
  JsonState value_in(const JsonState& container, int value_node);

  void step_value(const JsonState& state, std::uint8_t byte, States& out);
  void open_container(const JsonState& state, std::uint8_t byte, States& out) const;
  void step_text(const JsonState& state, std::uint8_t byte, States& out);
  void step_string(const JsonState& state, std::uint8_t byte, States& out);
  void step_number(const JsonState& state, std::uint8_t byte, States& out);
  void step_container(const JsonState& state, std::uint8_t byte, States& out);
  void begin_item(const JsonState& state, std::uint8_t byte, States& out);
  void begin_key(const JsonState& state, States& out) const;
  void step_key(const JsonState& state, std::uint8_t byte, States& out) const;
  bool may_close(const JsonState& state) const;
  bool may_go_on(const JsonState& state) const;
  static bool number_is_whole(const JsonState& state);
  bool text_is_whole(const JsonState& state) const;

  const JsonGrammar* grammar_;
  States stack_;
};

}  // namespace engramd::engine
