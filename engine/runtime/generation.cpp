#include "engine/runtime/generation.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace engramd::engine {

namespace {

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

SamplingOptions sampling_of(const ChatRequest& request) {
  SamplingOptions sampling = request.sampling;
  sampling.logprobs = request.logprobs;
  return sampling;
}

}  // namespace

Generation::Generation(ChatJob job, const Model& model, const Tokenizer& tokenizer, KvCache& cache,
                       std::string model_name)
    : job_(std::move(job)),
      model_(&model),
      n_prompt_(static_cast<std::int64_t>(job_.prompt.size())),
      sequence_(model.token_map, cache, job_.request.engram_enabled),
      sampler_(sampling_of(job_.request), model.config.vocab_size),
      decoder_(tokenizer, true),
      stops_(job_.request.stop),
      started_(Clock::now()) {
  if (job_.request.grammar) constraint_.emplace(job_.request.grammar, job_.trie);
  for (const TokenId token : job_.prompt) sequence_.append(token);
  sampler_.observe_prompt(job_.prompt);
  result_.prompt_tokens = n_prompt_;
  result_.served_by = "local";
  result_.model = std::move(model_name);
  result_.fallback_reason = job_.fallback_reason;
  result_.queue_ms = milliseconds(started_ - job_.submitted);
}

std::int64_t Generation::n_blocks_max() const {
  return (n_prompt_ + job_.request.max_tokens + kernels::kBlockTokens - 1) / kernels::kBlockTokens;
}

SequenceSlice Generation::adopted_slice() {
  SequenceSlice slice;
  slice.sequence = &sequence_;
  slice.end = sequence_.n_cached();
  slice.counts = &result_.engram_prompt;
  n_counted_ = slice.end;
  result_.cached_prompt_tokens = slice.end;
  return slice;
}

SequenceSlice Generation::next_slice(std::int64_t tokens_max) {
  SequenceSlice slice;
  slice.sequence = &sequence_;
  slice.begin = sequence_.n_cached();
  slice.end = std::min(sequence_.size(), slice.begin + tokens_max);
  slice.no_logits = slice.end < sequence_.size();
  slice.counts = n_counted_ < n_prompt_ ? &result_.engram_prompt : &result_.engram_generated;
  slice.count_from = n_counted_;
  n_counted_ = std::max(n_counted_, slice.end);
  return slice;
}

void Generation::report_prefill() {
  if (job_.callbacks.on_prefill) job_.callbacks.on_prefill(sequence_.n_cached(), n_prompt_);
}

bool Generation::is_end_of_sentence(TokenId id) const {
  const auto& eos = model_->config.eos_token_ids;
  return std::find(eos.begin(), eos.end(), id) != eos.end();
}

std::span<const float> Generation::constrained(std::span<const float> logits) {
  // Above what is out of the question, whatever the model and the penalties make of it.
  constexpr float kLowest = -1e30F;
  constrained_.assign(logits.size(), -std::numeric_limits<float>::infinity());
  const auto admit = [&](std::size_t i) {
    constrained_[i] = logits[i] > kLowest ? logits[i] : kLowest;  // also for NaN
  };
  const TokenSet& allowed = constraint_->allowed();
  allowed.for_each([&](TokenId id) { admit(static_cast<std::size_t>(id)); });
  if (constraint_->may_end()) {
    for (const std::int64_t id : model_->config.eos_token_ids) admit(static_cast<std::size_t>(id));
  }
  return constrained_;
}

std::optional<FinishReason> Generation::accept(std::span<const float> logits) {
  SampledToken token = sampler_.sample(constraint_ ? constrained(logits) : logits);
  if (result_.completion_tokens++ == 0) {
    first_token_ = Clock::now();
    result_.first_token_ms = milliseconds(first_token_ - job_.submitted);
  }
  const TokenId id = token.chosen.token;
  if (is_end_of_sentence(id)) return FinishReason::kStop;
  sequence_.append(id);
  const std::string decoded = decoder_.push(id);
  decoded_bytes_ += static_cast<std::int64_t>(decoded.size());
  token.text_end = decoded_bytes_;
  emit(stops_.push(decoded), std::move(token));
  if (!stops_.matched().empty()) return FinishReason::kStop;
  if (constraint_) {
    constraint_->accept(id);
    if (constraint_->must_end()) return FinishReason::kStop;
  }
  if (result_.completion_tokens >= job_.request.max_tokens) return FinishReason::kLength;
  return std::nullopt;
}

void Generation::emit(std::string text, std::optional<SampledToken> token) {
  result_.text += text;
  const bool kept = job_.request.logprobs || job_.request.sampling.top_logprobs > 0;
  if (token && kept) result_.tokens.push_back(*token);
  if (job_.callbacks.on_delta) job_.callbacks.on_delta({std::move(text), std::move(token)});
}

ChatResult Generation::finish(FinishReason reason) {
  if (stops_.matched().empty()) {
    std::string rest = stops_.push(decoder_.flush()) + stops_.flush();
    if (!rest.empty()) emit(std::move(rest), std::nullopt);
  }
  const auto now = Clock::now();
  result_.finish_reason = reason;
  result_.stop_matched = stops_.matched();
  result_.total_ms = milliseconds(now - job_.submitted);
  if (result_.completion_tokens > 1) {
    const double seconds = std::chrono::duration<double>(now - first_token_).count();
    result_.decode_tokens_per_s = static_cast<double>(result_.completion_tokens - 1) / seconds;
  }
  return std::move(result_);
}

}  // namespace engramd::engine
