#include "engine/runtime/gate_inspection.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace engramd::engine {

namespace {

// A turn alone takes a few milliseconds; beside chats about as long as one of their passes.
constexpr std::int64_t kInspectionChunkTokens = 64, kInspectionChunkTokensBesideChats = 8;
constexpr std::int64_t kAblations = 8, kAblationsBesideChats = 1;

double log_probability(std::span<const float> logits, TokenId token) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - largest));
  return logits[static_cast<std::size_t>(token)] - largest - std::log(sum);
}

GatePosition described(LookupPosition looked_up) {
  GatePosition position;
  position.token = looked_up.token;
  position.text = std::move(looked_up.text);
  for (LookupNgram& ngram : looked_up.ngrams) {
    position.ngrams.push_back(std::move(ngram.text));
    position.bypassed.push_back(ngram.bypassed);
  }
  position.owned.resize(looked_up.ngrams.size());
  position.n_rows.resize(looked_up.ngrams.size());
  position.n_edited.resize(looked_up.ngrams.size());
  position.edited_by.resize(looked_up.ngrams.size());
  for (const LookupLayer& layer : looked_up.layers) {
    for (const LookupCell& cell : layer.cells) {
      const auto slot = static_cast<std::size_t>(cell.order - 2);
      if (*cell.owned) position.owned[slot] = true;
      ++position.n_rows[slot];
      if (cell.edited_by != 0) ++position.n_edited[slot];
      position.edited_by[slot] = std::max(position.edited_by[slot], cell.edited_by);
    }
  }
  return position;
}

}  // namespace

GateInspection::GateInspection(GateJob job, LookupReport looked_up, const Model& model,
                               TableView view, kernels::Backend& backend,
                               std::stop_token engine_stop)
    : job_(std::move(job)),
      model_(&model),
      view_(std::move(view)),
      backend_(&backend),
      engine_stop_(std::move(engine_stop)),
      started_(std::chrono::steady_clock::now()) {
  for (LookupPosition& position : looked_up.positions) {
    report_.positions.push_back(described(std::move(position)));
  }
}

bool GateInspection::advance(bool chats_run) {
  if (stopped()) return done(cancelled("gate inspection was cancelled"));
  if (!sequence_ && !prepare()) return true;
  const std::int64_t total = sequence_->size();
  if (sequence_->n_cached() < total && next_ablation_ < 0) {
    const auto traced =
        trace_chunk(chats_run ? kInspectionChunkTokensBesideChats : kInspectionChunkTokens);
    if (traced.has_error()) return done(traced.error());
    if (sequence_->n_cached() == total) {
      next_ablation_ = job_.options.with_ablation ? total - 2 : -1;
      if (next_ablation_ < 0) return done(std::move(report_));
    }
  } else {
    const std::int64_t n = chats_run ? kAblationsBesideChats : kAblations;
    for (std::int64_t i = 0; i < n && next_ablation_ >= 0; ++i) {
      if (const auto ablated = ablate(); ablated.has_error()) return done(ablated.error());
    }
    if (next_ablation_ < 0) return done(std::move(report_));
  }
  if (job_.on_progress) {
    const std::int64_t ablated = next_ablation_ < 0 ? 0 : total - 1 - next_ablation_;
    job_.on_progress(ablated, total);
  }
  return false;
}

bool GateInspection::done(Result<GateReport> result) {
  if (result.has_value()) {
    result->elapsed_ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - started_)
            .count();
  }
  job_.on_done(std::move(result));
  return true;
}

bool GateInspection::prepare() {
  const auto n_tokens = static_cast<std::int64_t>(job_.ids.size());
  auto cache =
      KvCache::make(*model_, kernels::DType::kF32, n_tokens / kernels::kBlockTokens + 1, backend_);
  if (cache.has_error()) {
    done(cache.error());
    return false;
  }
  cache_ = std::move(*cache);
  step_ = std::make_unique<Step>(*model_, *backend_, *cache_);
  sequence_ = std::make_unique<Sequence>(model_->token_map, *cache_, true);
  for (const TokenId id : job_.ids) sequence_->append(id);
  ENGRAMD_ASSERT(sequence_->reserve(n_tokens));
  logprobs_.resize(job_.ids.size());
  return true;
}

Result<void> GateInspection::trace_chunk(std::int64_t n_tokens) {
  const auto vocab_size = static_cast<std::size_t>(model_->config.vocab_size);
  const std::int64_t begin = sequence_->n_cached();
  const std::int64_t end = std::min(sequence_->size(), begin + n_tokens);
  SequenceSlice slice{sequence_.get(), begin, end};
  slice.all_logits = true;
  ForwardTrace trace;
  const auto logits = step_->run({&slice, 1}, view_, {}, &trace);
  if (logits.has_error()) return logits.error();
  note_gates(trace, begin, end);
  for (std::int64_t t = begin; t < end && t + 1 < sequence_->size(); ++t) {
    logprobs_[static_cast<std::size_t>(t)] = log_probability(
        logits->subspan(static_cast<std::size_t>(t - begin) * vocab_size, vocab_size),
        job_.ids[static_cast<std::size_t>(t) + 1]);
  }
  return {};
}

void GateInspection::note_gates(const ForwardTrace& trace, std::int64_t begin, std::int64_t end) {
  const std::ptrdiff_t n = model_->config.hc_mult;
  for (std::int64_t t = begin; t < end; ++t) {
    for (std::size_t index = 0; index < trace.engram.size(); ++index) {
      const ForwardTrace::Engram& seen = trace.engram[index];
      const std::ptrdiff_t first = (t - begin) * n;
      const auto part = [&](const std::vector<float>& values) {
        return std::vector<float>(values.begin() + first, values.begin() + first + n);
      };
      GateLayer layer;
      layer.layer_id = model_->layout.layers[index].layer_id;
      layer.gate = part(seen.gate);
      layer.dot = part(seen.dot);
      layer.residual_share = part(seen.residual_share);
      layer.value_norm = seen.value_norm[static_cast<std::size_t>(t - begin)];
      report_.positions[static_cast<std::size_t>(t)].layers.push_back(std::move(layer));
    }
  }
}

// Last position first: the recomputed entries overwrite only what no later ablation reads.
Result<void> GateInspection::ablate() {
  const std::int64_t t = next_ablation_--;
  sequence_->truncate_cached(t);
  SequenceSlice slice{sequence_.get(), t, t + 1};
  slice.leave_engram_out = true;
  const auto logits = step_->run({&slice, 1}, view_, {});
  if (logits.has_error()) return logits.error();
  const auto at = static_cast<std::size_t>(t);
  report_.positions[at].ablation_delta_logprob =
      logprobs_[at] - log_probability(*logits, job_.ids[at + 1]);
  return {};
}

}  // namespace engramd::engine
