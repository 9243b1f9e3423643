// links: engramd_tokenizer
// Any bytes as a tokenizer.json: an error or a tokenizer that encodes and decodes.
#include "engine/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  const auto tokenizer = engramd::engine::Tokenizer::from_json(
      std::string_view(reinterpret_cast<const char*>(data), size));
  if (!tokenizer) return 0;
  const auto encoding = tokenizer->encode_with_offsets("ab b <end> 12 é中🙂\r\n");
  if (!encoding) return 0;
  ENGRAMD_ASSERT(encoding->ids.size() == encoding->offsets.size());
  ENGRAMD_ASSERT(tokenizer->decode(encoding->ids).has_value());
  return 0;
}
