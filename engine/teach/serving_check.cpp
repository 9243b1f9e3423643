#include "engine/teach/serving_check.h"

#include <algorithm>
#include <utility>

namespace engramd::engine {

namespace {

TokenId likeliest(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace

Result<std::unique_ptr<ServingCheck>> ServingCheck::make(const Model& model,
                                                         kernels::Backend& backend,
                                                         kernels::DType kv_cache_dtype,
                                                         std::int64_t n_tokens_max) {
  auto cache =
      KvCache::make(model, kv_cache_dtype, n_tokens_max / kernels::kBlockTokens + 1, &backend);
  if (cache.has_error()) return cache.error();
  return std::unique_ptr<ServingCheck>(new ServingCheck(model, backend, std::move(*cache)));
}

ServingCheck::ServingCheck(const Model& model, kernels::Backend& backend, KvCache cache)
    : model_(&model), cache_(std::move(cache)), step_(model, backend, cache_, false) {}

Result<bool> ServingCheck::says(const TaughtText& text, const TableView& view) {
  Sequence sequence(model_->token_map, cache_, true);
  for (const TokenId token : text.tokens()) sequence.append(token);
  ENGRAMD_ASSERT(sequence.reserve(sequence.size()));
  SequenceSlice slice{&sequence, 0, sequence.size()};
  slice.all_logits = true;
  const auto logits = step_.run({&slice, 1}, view, {});
  if (logits.has_error()) return logits.error();
  const auto vocab_size = static_cast<std::size_t>(model_->config.vocab_size);
  for (std::size_t i = 0; i < text.answer.size(); ++i) {
    const std::size_t position = text.prompt.size() - 1 + i;
    if (likeliest(logits->subspan(position * vocab_size, vocab_size)) != text.answer[i]) {
      return false;
    }
  }
  return true;
}

Result<std::vector<TokenId>> ServingCheck::answer(const std::vector<TokenId>& prompt,
                                                  int answer_tokens_max, const TableView& view) {
  Sequence sequence(model_->token_map, cache_, true);
  for (const TokenId token : prompt) sequence.append(token);
  const auto& eos = model_->config.eos_token_ids;
  std::vector<TokenId> answer;
  while (static_cast<int>(answer.size()) < answer_tokens_max && sequence.reserve(sequence.size())) {
    SequenceSlice slice{&sequence, sequence.n_cached(), sequence.size()};
    const auto logits = step_.run({&slice, 1}, view, {});
    if (logits.has_error()) return logits.error();
    const TokenId next = likeliest(*logits);
    if (std::find(eos.begin(), eos.end(), next) != eos.end()) break;
    answer.push_back(next);
    sequence.append(next);
  }
  return answer;
}

}  // namespace engramd::engine
