// Sampler: logits to the next token. One per sequence, used from the engine thread only.
// Order of operations, as in most engines: logit bias, penalties, temperature, top-k, top-p, min-p,
// draw. Not here: stop strings and end-of-sentence handling (chat_backend).
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "config/result.h"
#include "engine/tokenizer/tokenizer.h"

namespace engramd::engine {

struct SamplingOptions {
  double temperature = 0.0;         // 0: greedy
  int top_k = 0;                    // 0: off
  double top_p = 1.0;               // 1: off
  double min_p = 0.0;               // 0: off; relative to the most likely token
  double repetition_penalty = 1.0;  // 1: off; over prompt and output (CTRL, arXiv 1909.05858)
  double presence_penalty = 0.0;    // over output (OpenAI's definition)
  double frequency_penalty = 0.0;
  std::uint64_t seed = 0;
  std::vector<std::pair<TokenId, float>> logit_bias;
  int top_logprobs = 0;  // 0..20: alternatives reported with each token
};
// Ranges: temperature 0..2, top_p (0, 1], min_p 0..1, penalties -2..2, repetition 0.1..10.
Result<void> validate(const SamplingOptions& options, std::int64_t vocab_size);

struct TokenLogprob {
  TokenId token = 0;
  double logprob = 0;  // natural log, of the unmodified distribution (after logit bias)
};
struct SampledToken {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // descending; empty unless asked for
};

class Sampler {
 public:
  Sampler(const SamplingOptions& options, std::int64_t vocab_size);
  // prompt tokens count for the repetition penalty
  void observe_prompt(std::span<const TokenId> prompt);
  // logits: [vocab_size]; greedy ties go to the lowest id. Records the token as output.
  SampledToken sample(std::span<const float> logits);
  // The distribution that sample() draws from, for tests and constrained decoding: [vocab_size].
  std::vector<double> probabilities(std::span<const float> logits) const;

 private:
  SamplingOptions options_;
  std::uint64_t random_state_;  // splitmix64 of seed and step: equal seeds give equal texts
  std::vector<std::int32_t> prompt_counts_;            // [vocab_size], empty until needed
  std::vector<std::int32_t> output_counts_;            // [vocab_size], empty until needed
  std::vector<std::pair<float, TokenId>> candidates_;  // scratch
};

}  // namespace engramd::engine
