// A layout file is untrusted: whatever it says, parsing and deriving the layout end soon and
// without a crash, and every row stays inside its table.
// links: engramd_engram
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "config/assert.h"
#include "engine/engram/addresser.h"
#include "engine/engram/layout_json.h"

namespace {

using namespace engramd::engine;

void hash_with(EngramLayoutConfig config) {
  const auto layout = make_layout(std::move(config));
  if (!layout.has_value()) return;
  const std::vector<std::int32_t> classes{98626, 0, 1};
  std::vector<std::int64_t> rows(3 * static_cast<std::size_t>(layout->n_columns()));
  Addresser(*layout, 2).rows(0, classes, 0, 3, rows.data());
  for (const std::int64_t row : rows) ENGRAMD_ASSERT(row >= 0 && row < layout->layers[0].n_rows);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  if (auto config = parse_layout_json(text); config.has_value()) {
    config->hashed_vocab_size = 98627;
    hash_with(std::move(*config));
  }
  if (auto peft = parse_peft_json(text); peft.has_value()) hash_with(std::move(peft->config));
  return 0;
}
