// Generation: one chat request on its way through the engine: its sequence, its sampler, the text
// that has become final, and the result it will report. Engine thread only.
// Not here: when it runs (scheduler), the forward pass (step).
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/runtime/chat_backend.h"
#include "engine/runtime/constraint/constraint.h"
#include "engine/runtime/sequence.h"
#include "engine/runtime/step.h"
#include "engine/runtime/stop_matcher.h"
#include "engine/tokenizer/stream_decoder.h"

namespace engramd::engine {

using Clock = std::chrono::steady_clock;

struct ChatJob {  // a request whose prompt is encoded and checked
  ChatRequest request;
  ChatCallbacks callbacks;
  std::stop_token stop;
  std::vector<TokenId> prompt;
  Clock::time_point submitted;
  std::string fallback_reason;      // empty: the model that was asked for answers
  std::shared_ptr<TokenTrie> trie;  // of the model, when the request has a grammar
};

class Generation {
 public:
  Generation(ChatJob job, const Model& model, const Tokenizer& tokenizer, KvCache& cache,
             std::string model_name);

  // Blocks that the prompt and every token it may generate take.
  std::int64_t n_blocks_max() const;
  Sequence& sequence() { return sequence_; }
  // After blocks were found in the prefix cache: where they were counted.
  SequenceSlice adopted_slice();

  bool cancelled() const { return job_.stop.stop_requested(); }
  std::stop_token stop() const { return job_.stop; }
  // More than the newest token is to be computed: the prompt, or what an edit made out of date.
  bool in_prefill() const {
    return sequence_.n_cached() < std::max(n_prompt_, sequence_.size() - 1);
  }
  // The next positions to compute, at most tokens_max of them.
  SequenceSlice next_slice(std::int64_t tokens_max);

  // After a step that moved a prompt chunk.
  void report_prefill();
  // logits: [vocab_size] of the last position. A reason when this was the last token.
  std::optional<FinishReason> accept(std::span<const float> logits);

  // Emits what was held back and closes the result; nothing may follow but giving it to on_done().
  ChatResult finish(FinishReason reason);
  std::function<void(Result<ChatResult>)> on_done() const { return job_.callbacks.on_done; }

 private:
  bool is_end_of_sentence(TokenId id) const;
  // The logits of what may come; the rest is out of the question.
  std::span<const float> constrained(std::span<const float> logits);
  void emit(std::string text, std::optional<SampledToken> token);

  ChatJob job_;
  const Model* model_;
  std::int64_t n_prompt_;
  std::int64_t n_counted_ = 0;  // positions whose look-ups are in the result
  Sequence sequence_;
  Sampler sampler_;
  StreamDecoder decoder_;
  StopMatcher stops_;
  std::optional<Constraint> constraint_;
  std::vector<float> constrained_;  // [vocab_size], empty without a constraint
  std::int64_t decoded_bytes_ = 0;
  ChatResult result_;
  Clock::time_point started_;
  Clock::time_point first_token_;
};

}  // namespace engramd::engine
