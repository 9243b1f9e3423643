// Log-probabilities in OpenAI's two shapes. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/runtime/chat_backend.h"
#include "engine/tokenizer/tokenizer.h"

namespace engramd::server {

// Of chat completions: {"content": [{token, logprob, bytes, top_logprobs}], "refusal": null}
nlohmann::json chat_logprobs(const std::vector<engine::SampledToken>& tokens,
                             const engine::Tokenizer& tokenizer);

// Of completions: {tokens, token_logprobs, top_logprobs, text_offset}; offsets in characters from
// the first_offset that `text` begins at. `text_offset` moves on by the tokens' texts.
nlohmann::json completion_logprobs(const std::vector<engine::SampledToken>& tokens,
                                   const engine::Tokenizer& tokenizer, std::int64_t& text_offset);

}  // namespace engramd::server
