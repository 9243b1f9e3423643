// PromptEncoder: chat messages or plain text to the tokens that the model is fed. Immutable after
// load; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/checkpoint/model_config.h"
#include "engine/runtime/chat_backend.h"
#include "engine/runtime/chat_template.h"
#include "engine/tokenizer/tokenizer.h"

namespace engramd::engine {

class PromptEncoder {
 public:
  // Reads tokenizer_config.json of `folder` where there is one.
  static Result<PromptEncoder> open(const std::string& folder, const ModelConfig& config);

  // Whatever a message spells, only the template makes special tokens; a template that looks for
  // one in a message ("</think>") finds it there no more.
  // continue_last: the last message, the assistant's, is the beginning of the answer.
  // Refused: no messages, an unknown role, a model without a chat template.
  Result<std::vector<TokenId>> messages(const Tokenizer& tokenizer,
                                        const std::vector<ChatMessage>& messages,
                                        bool continue_last = false) const;
  // Beginning-of-sentence, then the text.
  Result<std::vector<TokenId>> text(const Tokenizer& tokenizer, const std::string& text) const;

 private:
  TokenizerConfig config_;
  TokenId bos_token_id_ = -1;
  std::optional<ChatTemplate> template_;
};

}  // namespace engramd::engine
