// Sampler: logits to the next token. One per sequence, used from the engine thread only.
// Order of operations, as in most engines: logit bias, penalties, temperature, top-k, top-p, min-p,
// draw. Not here: stop strings and end-of-sentence handling (chat_backend).
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
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
  std::vector<std::pair<TokenId, float>> logit_bias = {};
  int top_logprobs = 0;  // 0..20: alternatives reported with each token
  bool logprobs = true;  // false, without top_logprobs: logprob stays 0, a pass over the vocabulary
                         // less
};
// Ranges: temperature 0..2, top_k >= 0, top_p (0, 1], min_p 0..1, penalties -2..2 and bias
// -100..100 (OpenAI's), repetition 0.1..10.
Result<void> validate(const SamplingOptions& options, std::int64_t vocab_size);

struct TokenLogprob {
  TokenId token = 0;
  double logprob = 0;  // natural log, of the unmodified distribution (after logit bias and format)
};
struct SampledToken {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // descending; empty unless asked for
  std::int64_t text_end = 0;      // bytes of text that this token and those before it make
};

class Sampler {
 public:
  Sampler(const SamplingOptions& options, std::int64_t vocab_size);
  // prompt tokens count for the repetition penalty
  void observe_prompt(std::span<const TokenId> prompt);
  // logits: [vocab_size]; greedy ties go to the lowest id. Records the token as output.
  // Logits outside the finite floats: NaN and -inf count as the lowest float, +inf as the greatest,
  // so a NaN is drawn only when nothing else is left.
  SampledToken sample(std::span<const float> logits);
  // The distribution that sample() draws from, for tests and constrained decoding: [vocab_size].
  std::vector<double> probabilities(std::span<const float> logits) const;

 private:
  struct Candidate {
    float logit;
    TokenId token;
  };
  struct Scratch {                      // kept between calls so that decoding does not allocate
    std::vector<float> logits;          // [vocab_size, padded to whole blocks with -inf]
    std::vector<float> block_maxima;    // [n_blocks]
    std::vector<float> maxima_order;    // [n_blocks], for selection
    std::vector<Candidate> candidates;  // descending logit, then ascending id
    std::vector<float> weights;         // of candidates, or of all tokens; not normalised
  };

  void load(std::span<const float> logits, Scratch& scratch) const;
  void penalise(Scratch& scratch) const;
  // Fills scratch.weights; true: they belong to scratch.candidates, false: to the ids 0, 1, ...
  bool weigh(Scratch& scratch) const;
  TokenId draw(Scratch& scratch);

  SamplingOptions options_;
  std::int64_t vocab_size_;
  std::uint64_t random_state_;  // splitmix64 of seed and step: equal seeds give equal texts
  bool penalties_on_;
  std::unordered_map<TokenId, std::int64_t> output_counts_;  // prompt tokens are there with 0
  Scratch scratch_;
};

}  // namespace engramd::engine
