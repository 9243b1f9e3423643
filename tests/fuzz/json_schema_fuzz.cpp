// links: engramd_constraint
// A schema is untrusted: it compiles within its limits or is refused, and a text of it can be
// written to the end, whatever its author thought of.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "config/assert.h"
#include "engine/runtime/constraint/json_automaton.h"
#include "engine/runtime/constraint/json_schema.h"

using engramd::engine::JsonAutomaton;
using engramd::engine::JsonState;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto grammar =
      engramd::engine::compile_json_schema({reinterpret_cast<const char*>(data), size});
  if (grammar.has_error()) return 0;
  JsonAutomaton automaton(**grammar);
  JsonState state = automaton.start();
  std::vector<JsonState> next;
  for (int i = 0; i < 300 && state.phase != JsonState::Phase::kEnd; ++i) {
    next.clear();
    // Closing bytes first; the last resort is any byte at all.
    for (const char c : std::string_view("}]\",:")) {
      if (next.empty()) automaton.step(state, static_cast<std::uint8_t>(c), next);
    }
    for (int byte = 0x20; byte < 256 && next.empty(); ++byte) {
      automaton.step(state, static_cast<std::uint8_t>(byte), next);
    }
    ENGRAMD_ASSERT(!next.empty() || automaton.may_end(state));
    if (next.empty()) break;
    state = next.back();
  }
  return 0;
}
