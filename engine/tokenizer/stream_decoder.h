// StreamDecoder: token by token, text that never splits a UTF-8 character. Holds back only an
// unfinished sequence that is valid so far (1 to 3 bytes); everything else goes out at once.
// One per generated sequence, used from one thread; the Tokenizer must outlive it.
#pragma once

#include <string>

#include "engine/tokenizer/tokenizer.h"

namespace engramd::engine {

class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = false);
  std::string push(TokenId id);  // text that is final after this token
  std::string flush();           // what an unfinished sequence becomes at the end (U+FFFD or "")

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string pending_;
};

}  // namespace engramd::engine
