// TextTokens: which tokens belong to the text that has gone out. A token is told of with the text
// that it completes: what a stop text may still cut off waits, and never comes when it does.
// One per choice. Pure.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "engine/runtime/chat_backend.h"

namespace engramd::server {

class TextTokens {
 public:
  // The tokens whose text is out once delta's is.
  std::vector<engine::SampledToken> push(const engine::ChatDelta& delta);
  // At the end: those that begin inside the text, the last of them perhaps cut.
  std::vector<engine::SampledToken> rest();

 private:
  std::deque<engine::SampledToken> waiting_;
  std::int64_t text_bytes_ = 0;   // that went out
  std::int64_t begin_bytes_ = 0;  // where the first that waits begins
};

// The same over a whole answer.
std::vector<engine::SampledToken> tokens_of(const engine::ChatResult& result);

}  // namespace engramd::server
