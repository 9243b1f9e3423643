#include "server/api/openai_completions_request.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "server/api/json_body.h"

namespace engramd::server {
namespace {

using nlohmann::json;

constexpr std::size_t kPromptsMax = 64;
constexpr int kAnswersMax = 64;  // prompts times n

// false: not an array of token ids
bool read_tokens(const json& list, std::vector<engine::TokenId>& tokens) {
  for (const json& id : list) {
    if (!id.is_number_integer()) return false;
    const auto value = id.get<std::int64_t>();
    if (value < 0 || value > std::numeric_limits<engine::TokenId>::max()) return false;
    tokens.push_back(static_cast<engine::TokenId>(value));
  }
  return true;
}

std::optional<TextOrTokens> read_one(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  std::vector<engine::TokenId> tokens;
  if (value.is_array() && read_tokens(value, tokens)) return tokens;
  return std::nullopt;
}

bool is_empty(const TextOrTokens& text) {
  return std::visit([](const auto& value) { return value.empty(); }, text);
}

void refuse_unsupported(RequestFields& fields, const CompletionRequest& request) {
  if (fields.text("suffix").value_or("") != "") {
    fields.refuse("suffix", "this model does not fill in; leave it out");
  }
  const int n = request.generation.n_choices;
  if (fields.integer("best_of", 1, 64).value_or(n) != n) {
    fields.refuse("best_of", "answers are not ranked; expected n, " + std::to_string(n));
  }
  if (request.echo && request.generation.chat.logprobs) {
    fields.refuse("echo",
                  "log-probabilities are those of the answer; expected no logprobs with it");
  }
  if (static_cast<int>(request.prompts.size()) * n > kAnswersMax) {
    fields.refuse("n", "prompts times n: expected at most " + std::to_string(kAnswersMax));
  }
}

}  // namespace

std::vector<TextOrTokens> read_texts(RequestFields& fields, const char* name,
                                     std::size_t texts_max) {
  const json* value = fields.find(name);
  if (value == nullptr) {
    fields.refuse(name, "required, got none");
    return {};
  }
  std::vector<std::optional<TextOrTokens>> read = {read_one(*value)};
  if (!read.front() && value->is_array() && value->size() <= texts_max) {
    read.assign(value->size(), std::nullopt);
    std::transform(value->begin(), value->end(), read.begin(), read_one);
  }
  std::vector<TextOrTokens> texts;
  for (std::optional<TextOrTokens>& text : read) {
    if (!text) {
      fields.refuse(name, "expected a string, an array of 1 to " + std::to_string(texts_max) +
                              " strings, an array of token ids, or an array of those");
    } else if (is_empty(*text)) {
      fields.refuse(name, "expected at least one character or token, got none");
    } else {
      texts.push_back(std::move(*text));
    }
  }
  return texts;
}

ApiResult<CompletionRequest> parse_openai_completion(std::string_view body,
                                                     const config::Options& options) {
  const auto parsed = parse_json_body(body, options.limits.json_depth_max);
  if (parsed.has_error()) return parsed.error();
  RequestProblems problems;
  RequestFields fields(*parsed, problems);
  CompletionRequest request;
  request.generation = read_generation(fields, options.sampling);
  request.prompts = read_texts(fields, "prompt", kPromptsMax);
  request.echo = fields.boolean("echo").value_or(false);
  if (const auto n = fields.integer("logprobs", 0, 20)) {
    request.generation.chat.logprobs = true;
    request.generation.chat.sampling.top_logprobs = static_cast<int>(*n);
  }
  refuse_unsupported(fields, request);
  if (problems.wrong) return *problems.wrong;
  return request;
}

}  // namespace engramd::server
