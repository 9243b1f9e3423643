#include "engine/runtime/constraint/json_automaton.h"

#include <algorithm>
#include <string_view>

namespace engramd::engine {
namespace {

bool is_digit(std::uint8_t byte) {
  return byte >= '0' && byte <= '9';
}

int byte_at(const std::string& text, std::int32_t position) {
  return static_cast<unsigned char>(text[static_cast<std::size_t>(position)]);
}

}  // namespace

JsonState JsonAutomaton::start() const {
  JsonState state;
  state.phase = Phase::kValue;
  state.node = grammar_->root;
  return state;
}

void JsonAutomaton::step(const JsonState& state, std::uint8_t byte, States& out) {
  switch (state.phase) {
    case Phase::kValue:
      return step_value(state, byte, out);
    case Phase::kText:
      return step_text(state, byte, out);
    case Phase::kString:
    case Phase::kMapKey:
      return step_string(state, byte, out);
    case Phase::kNumber:
      return step_number(state, byte, out);
    case Phase::kKey:
      return step_key(state, byte, out);
    case Phase::kEnd:
      return;
    default:
      return step_container(state, byte, out);
  }
}

// Whether a value of the node can still be finished inside `depth` open containers.
bool JsonAutomaton::fits_below(int value_node, int depth) const {
  return depth + node(value_node).depth_min <= kJsonDepthMax;
}

JsonState JsonAutomaton::completed(const JsonState& state) const {
  return state.parent < 0 ? JsonState() : stack_[static_cast<std::size_t>(state.parent)];
}

// Before a value inside `container`, which goes on in phase kNext behind it.
JsonState JsonAutomaton::value_in(const JsonState& container, int value_node) {
  JsonState next = container;
  next.phase = Phase::kNext;
  ++next.index;
  stack_.push_back(next);
  JsonState value;
  value.phase = Phase::kValue;
  value.node = value_node;
  value.depth = container.depth;
  value.parent = static_cast<std::int32_t>(stack_.size()) - 1;
  return value;
}

void JsonAutomaton::step_value(const JsonState& state, std::uint8_t byte, States& out) {
  const JsonNode& value = node_of(state);
  if (!fits_below(state.node, state.depth)) return;
  JsonState next = state;
  switch (value.kind) {
    case JsonKind::kAnyOf:
      for (const int alternative : value.alternatives) {
        next.node = alternative;
        step_value(next, byte, out);
      }
      return;
    case JsonKind::kText:
      next.phase = Phase::kText;
      next.high = static_cast<std::int32_t>(value.texts.size());
      return step_text(next, byte, out);
    case JsonKind::kString:
      if (byte != '"') return;
      next.phase = Phase::kString;
      out.push_back(next);
      return;
    case JsonKind::kInteger:
    case JsonKind::kNumber:
      next.phase = Phase::kNumber;
      return step_number(next, byte, out);
    default:
      return open_container(state, byte, out);
  }
}

void JsonAutomaton::open_container(const JsonState& state, std::uint8_t byte, States& out) const {
  const bool array = node_of(state).kind == JsonKind::kArray;
  if (static_cast<char>(byte) != (array ? '[' : '{')) return;
  JsonState next = state;
  next.phase = Phase::kOpen;
  ++next.depth;
  out.push_back(next);
}

bool JsonAutomaton::text_is_whole(const JsonState& state) const {
  const std::string& first = node_of(state).texts[static_cast<std::size_t>(state.low)];
  return static_cast<std::int32_t>(first.size()) == state.position;
}

void JsonAutomaton::step_text(const JsonState& state, std::uint8_t byte, States& out) {
  const auto& texts = node_of(state).texts;
  if (state.position > 0 && text_is_whole(state)) step(completed(state), byte, out);
  // Sorted: those that agree up to here and go on with the byte lie together, whole ones first.
  const auto before = [&](const std::string& text, int bound) {
    return static_cast<std::int32_t>(text.size()) == state.position ||
           byte_at(text, state.position) < bound;
  };
  const auto begin = texts.begin() + state.low;
  const auto end = texts.begin() + state.high;
  const auto low = std::lower_bound(begin, end, static_cast<int>(byte), before);
  const auto high = std::lower_bound(low, end, static_cast<int>(byte) + 1, before);
  if (low == high) return;
  JsonState next = state;
  next.low = static_cast<std::int32_t>(low - texts.begin());
  next.high = static_cast<std::int32_t>(high - texts.begin());
  ++next.position;
  const bool only = next.high - next.low == 1;
  out.push_back(only && text_is_whole(next) ? completed(next) : next);
}

std::int64_t JsonAutomaton::characters_left(const JsonState& state) const {
  return state.phase == Phase::kMapKey ? JsonNode::kUnlimited : node_of(state).max - state.low;
}

void JsonAutomaton::step_string(const JsonState& state, std::uint8_t byte, States& out) {
  JsonState next = state;
  switch (next.scan.push(byte)) {
    case StringScan::Step::kRefused:
      return;
    case StringScan::Step::kBegins:
      if (characters_left(state) == 0) return;
      if (next.low < JsonNode::kUnlimited) ++next.low;
      break;
    case StringScan::Step::kInside:
      break;
    case StringScan::Step::kCloses:
      if (state.phase == Phase::kMapKey) {
        next.phase = Phase::kColon;
        next.low = 0;
      } else if (state.low >= node_of(state).min) {
        next = completed(state);
      } else {
        return;
      }
      break;
  }
  out.push_back(next);
}

bool JsonAutomaton::number_is_whole(const JsonState& state) {
  return state.part == Part::kZero || state.part == Part::kDigits || state.part == Part::kFraction;
}

void JsonAutomaton::step_number(const JsonState& state, std::uint8_t byte, States& out) {
  JsonState next = state;
  const bool digit = is_digit(byte);
  const bool more = state.low < kIntegerDigitsMax;
  const bool begins = state.part == Part::kStart || state.part == Part::kMinus;
  if (begins && digit) {
    next.part = byte == '0' ? Part::kZero : Part::kDigits;
    next.low = 1;
  } else if (state.part == Part::kStart && byte == '-') {
    next.part = Part::kMinus;
  } else if (state.part == Part::kDigits && digit && more) {
    ++next.low;
  } else if ((state.part == Part::kPoint || state.part == Part::kFraction) && digit && more) {
    next.part = Part::kFraction;
    ++next.low;
  } else if (byte == '.' && (state.part == Part::kZero || state.part == Part::kDigits) &&
             node_of(state).kind == JsonKind::kNumber) {
    next.part = Part::kPoint;
    next.low = 0;
  } else {
    if (number_is_whole(state)) step(completed(state), byte, out);
    return;
  }
  out.push_back(next);
}

bool JsonAutomaton::may_close(const JsonState& state) const {
  const JsonNode& container = node_of(state);
  switch (container.kind) {
    case JsonKind::kArray:
      return state.index >= container.min;
    case JsonKind::kObject:
      return state.index >= container.n_required;
    default:
      return true;
  }
}

// Whether another item or property can follow, so that a comma leads somewhere.
bool JsonAutomaton::may_go_on(const JsonState& state) const {
  const JsonNode& container = node_of(state);
  if (container.kind == JsonKind::kArray && state.index >= container.max) return false;
  if (container.kind != JsonKind::kObject) return fits_below(container.item, state.depth);
  for (std::size_t i = static_cast<std::size_t>(state.index); i < container.properties.size();
       ++i) {
    const JsonProperty& property = container.properties[i];
    if (fits_below(property.node, state.depth)) return true;
    if (property.required) return false;
  }
  return false;
}

void JsonAutomaton::step_container(const JsonState& state, std::uint8_t byte, States& out) {
  const JsonNode& container = node_of(state);
  const bool array = container.kind == JsonKind::kArray;
  JsonState next = state;
  switch (state.phase) {
    case Phase::kOpen:
    case Phase::kNext:
      if (static_cast<char>(byte) == (array ? ']' : '}') && may_close(state)) {
        out.push_back(completed(state));
      } else if (state.phase == Phase::kOpen) {
        if (may_go_on(state)) begin_item(state, byte, out);
      } else if (byte == ',' && may_go_on(state)) {
        next.phase = Phase::kComma;
        out.push_back(next);
      }
      return;
    case Phase::kComma:
    case Phase::kItem:
      if (byte != ' ') return begin_item(state, byte, out);
      if (state.phase == Phase::kItem) return;
      next.phase = Phase::kItem;  // one space, as many models write it
      out.push_back(next);
      return;
    case Phase::kColon:
      if (byte != ':') return;
      next.phase = Phase::kSpace;
      out.push_back(next);
      return;
    default: {  // kSpace
      const int value = container.kind == JsonKind::kMap
                            ? container.item
                            : container.properties[static_cast<std::size_t>(state.index)].node;
      const JsonState before = value_in(state, value);
      if (byte == ' ') {
        out.push_back(before);
      } else {
        step_value(before, byte, out);
      }
      return;
    }
  }
}

void JsonAutomaton::begin_item(const JsonState& state, std::uint8_t byte, States& out) {
  const JsonNode& container = node_of(state);
  if (container.kind == JsonKind::kArray) {
    return step_value(value_in(state, container.item), byte, out);
  }
  if (byte != '"') return;
  if (container.kind == JsonKind::kObject) return begin_key(state, out);
  JsonState next = state;
  next.phase = Phase::kMapKey;
  next.scan = {};
  out.push_back(next);
}

// The next properties, up to the first that may not be left out.
void JsonAutomaton::begin_key(const JsonState& state, States& out) const {
  const auto& properties = node_of(state).properties;
  for (std::size_t i = static_cast<std::size_t>(state.index); i < properties.size(); ++i) {
    JsonState next = state;
    next.phase = Phase::kKey;
    next.index = static_cast<std::int32_t>(i);
    next.position = 1;
    if (fits_below(properties[i].node, state.depth)) out.push_back(next);
    if (properties[i].required) return;
  }
}

void JsonAutomaton::step_key(const JsonState& state, std::uint8_t byte, States& out) const {
  const std::string& key = node_of(state).properties[static_cast<std::size_t>(state.index)].key;
  if (byte_at(key, state.position) != byte) return;
  JsonState next = state;
  if (++next.position == static_cast<std::int32_t>(key.size())) {
    next.phase = Phase::kColon;
    next.position = 0;
  }
  out.push_back(next);
}

bool JsonAutomaton::may_end(const JsonState& state) const {
  if (state.phase == Phase::kEnd) return true;
  if (state.parent >= 0) return false;
  if (state.phase == Phase::kNumber) return number_is_whole(state);
  return state.phase == Phase::kText && text_is_whole(state);
}

}  // namespace engramd::engine
