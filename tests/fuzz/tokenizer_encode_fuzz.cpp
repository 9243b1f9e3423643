// links: engramd_tokenizer
// Any bytes as text, for a tokenizer that has every byte: refused, or comes back equal.
#include "engine/tokenizer/stream_decoder.h"
#include "engine/tokenizer/vocabulary.h"

namespace {

// 256 byte tokens, some merges, the split of Qwen3 and Llama 3.
std::string tokenizer_json() {
  std::string vocab;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string symbol = engramd::engine::byte_symbol(static_cast<unsigned char>(byte));
    const bool escaped = symbol == "\"" || symbol == "\\";
    vocab += "\"" + (escaped ? "\\" + symbol : symbol) + "\":" + std::to_string(byte) + ",";
  }
  vocab += R"("ab":256,"abab":257,"Ġa":258)";
  return R"({"added_tokens":[{"id":259,"content":"<end>","special":true}],"pre_tokenizer":
    {"type":"Sequence","pretokenizers":[{"type":"Split","behavior":"Isolated","pattern":{"Regex":
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]},"decoder":{"type":"ByteLevel"},
    "model":{"type":"BPE","vocab":{)" +
         vocab + R"(},"merges":["a b","ab ab","Ġ a"]}})";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  using engramd::engine::Tokenizer;
  static const auto tokenizer = Tokenizer::from_json(tokenizer_json());
  ENGRAMD_ASSERT(tokenizer.has_value());
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto ids = tokenizer->encode(text);
  if (!ids) return 0;
  ENGRAMD_ASSERT(tokenizer->decode(*ids).value() == text);
  engramd::engine::StreamDecoder decoder(*tokenizer);
  std::string streamed;
  for (const auto id : *ids) streamed += decoder.push(id);
  ENGRAMD_ASSERT(streamed + decoder.flush() == text);
  return 0;
}
