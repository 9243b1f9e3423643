#include "engine/runtime/embedding.h"

#include <algorithm>
#include <utility>

namespace engramd::engine {
namespace {

// As long as a gate inspection's: a few milliseconds alone, about a chat's pass beside chats.
constexpr std::int64_t kEmbeddingChunkTokens = 128, kEmbeddingChunkTokensBesideChats = 16;

}  // namespace

Embedding::Embedding(EmbeddingJob job, const Model& model, TableView view,
                     kernels::Backend& backend, std::stop_token engine_stop)
    : job_(std::move(job)),
      model_(&model),
      view_(std::move(view)),
      backend_(&backend),
      engine_stop_(std::move(engine_stop)) {}

bool Embedding::done(Result<std::vector<std::vector<float>>> result) {
  job_.on_done(std::move(result));
  return true;
}

bool Embedding::advance(bool chats_run) {
  if (job_.stop.stop_requested() || engine_stop_.stop_requested()) {
    return done(cancelled("the embedding was cancelled"));
  }
  if (vectors_.size() == job_.inputs.size()) return done(std::move(vectors_));
  if (!sequence_) {
    if (const auto prepared = prepare(); prepared.has_error()) return done(prepared.error());
  }
  const auto computed =
      compute(chats_run ? kEmbeddingChunkTokensBesideChats : kEmbeddingChunkTokens);
  if (computed.has_error()) return done(computed.error());
  if (sequence_->n_cached() < sequence_->size()) return false;
  std::vector<float>& mean = vectors_.emplace_back();
  for (const double sum : sum_) {
    mean.push_back(static_cast<float>(sum / static_cast<double>(sequence_->size())));
  }
  sequence_.reset();
  return vectors_.size() == job_.inputs.size() && done(std::move(vectors_));
}

// The next input's sequence; before the first one, the cache and the buffers for all.
Result<void> Embedding::prepare() {
  if (!step_) {
    std::size_t longest = 0;
    for (const auto& input : job_.inputs) longest = std::max(longest, input.size());
    auto cache =
        KvCache::make(*model_, kernels::DType::kF32,
                      static_cast<std::int64_t>(longest) / kernels::kBlockTokens + 1, backend_);
    if (cache.has_error()) return cache.error();
    cache_ = std::move(*cache);
    step_ = std::make_unique<Step>(*model_, *backend_, *cache_);
  }
  const std::vector<TokenId>& input = job_.inputs[vectors_.size()];
  sequence_ = std::make_unique<Sequence>(model_->token_map, *cache_, true);
  for (const TokenId id : input) sequence_->append(id);
  ENGRAMD_ASSERT(sequence_->reserve(sequence_->size()));
  sum_.assign(static_cast<std::size_t>(model_->config.hidden_size), 0);
  return {};
}

Result<void> Embedding::compute(std::int64_t n_tokens) {
  const std::int64_t begin = sequence_->n_cached();
  SequenceSlice slice{sequence_.get(), begin, std::min(sequence_->size(), begin + n_tokens)};
  slice.no_logits = true;
  ForwardTrace trace;
  trace.want_final = true;
  const auto ran = step_->run({&slice, 1}, view_, {}, &trace);
  if (ran.has_error()) return ran.error();
  for (std::size_t i = 0; i < trace.final_hidden.size(); ++i) {
    sum_[i % sum_.size()] += static_cast<double>(trace.final_hidden[i]);
  }
  return {};
}

}  // namespace engramd::engine
