// A completions request, parsed and checked. Pure.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/options.h"
#include "server/api/generation_request.h"

namespace engramd::server {

// Text, or token ids as they are. Also what embeddings are made of.
using TextOrTokens = std::variant<std::string, std::vector<engine::TokenId>>;

struct CompletionRequest {
  GenerationRequest generation;
  std::vector<TextOrTokens> prompts;  // each gets n_choices
  bool echo = false;                  // the prompt in front of the answer
};

ApiResult<CompletionRequest> parse_openai_completion(std::string_view body,
                                                     const config::Options& options);

// A string, an array of strings, an array of token ids, or an array of those.
std::vector<TextOrTokens> read_texts(RequestFields& fields, const char* name,
                                     std::size_t texts_max);

}  // namespace engramd::server
