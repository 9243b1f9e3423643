// links: engramd_teach
// Facts from the history of a table, and other wordings of any question.
#include <cstdint>
#include <string_view>

#include "engine/teach/fact.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engramd::engine;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto fact = from_reason(text)) {
    const auto again = from_reason(to_reason(*fact));
    if (!again || again->questions != fact->questions || again->answer != fact->answer ||
        again->names != fact->names) {
      __builtin_trap();
    }
    for (const std::string& subject : subjects_of(*fact)) (void)bare_wordings(subject);
  }
  for (const std::string& wording : other_wordings(text)) {
    if (wording == text) __builtin_trap();
  }
  (void)questions_about(subject_of(text));
  return 0;
}
