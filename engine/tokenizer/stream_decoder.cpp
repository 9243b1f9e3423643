#include "engine/tokenizer/stream_decoder.h"

#include "engine/tokenizer/utf8.h"

namespace engramd::engine {

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(&tokenizer), skip_special_(skip_special) {}

std::string StreamDecoder::push(TokenId id) {
  std::string text;
  if (skip_special_ && tokenizer_->is_special(id)) return text;
  append_lossy_utf8(text, pending_, tokenizer_->token_bytes(id));
  return text;
}

std::string StreamDecoder::flush() {
  std::string text(pending_.empty() ? std::string_view() : kReplacementCharacter);
  pending_.clear();
  return text;
}

}  // namespace engramd::engine
