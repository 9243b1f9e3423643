#include "server/api/openai_logprobs.h"

#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace engramd::server {
namespace {

using nlohmann::json;

constexpr double kImpossible = -9999.0;  // OpenAI's word for a token that is out of the question

double reported(double logprob) {
  return logprob > kImpossible ? logprob : kImpossible;
}

json token_json(const engine::TokenLogprob& token, const engine::Tokenizer& tokenizer) {
  const std::string_view text = tokenizer.token_bytes(token.token);
  json bytes = json::array();
  for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", std::string(text)},
          {"logprob", reported(token.logprob)},
          {"bytes", std::move(bytes)}};
}

std::int64_t n_characters(std::string_view utf8) {
  std::int64_t n = 0;
  for (const char c : utf8) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return n;
}

}  // namespace

json chat_logprobs(const std::vector<engine::SampledToken>& tokens,
                   const engine::Tokenizer& tokenizer) {
  json content = json::array();
  for (const engine::SampledToken& token : tokens) {
    json entry = token_json(token.chosen, tokenizer);
    entry["top_logprobs"] = json::array();
    for (const engine::TokenLogprob& alternative : token.top) {
      if (alternative.logprob <= kImpossible) continue;
      entry["top_logprobs"].push_back(token_json(alternative, tokenizer));
    }
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

json completion_logprobs(const std::vector<engine::SampledToken>& tokens,
                         const engine::Tokenizer& tokenizer, std::int64_t& text_offset) {
  json out = {{"tokens", json::array()},
              {"token_logprobs", json::array()},
              {"top_logprobs", json::array()},
              {"text_offset", json::array()}};
  for (const engine::SampledToken& token : tokens) {
    const std::string text(tokenizer.token_bytes(token.chosen.token));
    out["tokens"].push_back(text);
    out["token_logprobs"].push_back(reported(token.chosen.logprob));
    json top = json::object();
    for (const engine::TokenLogprob& alternative : token.top) {
      if (alternative.logprob <= kImpossible) continue;
      top[std::string(tokenizer.token_bytes(alternative.token))] = alternative.logprob;
    }
    out["top_logprobs"].push_back(std::move(top));
    out["text_offset"].push_back(text_offset);
    text_offset += n_characters(text);
  }
  return out;
}

}  // namespace engramd::server
