#include "engine/runtime/step.h"

namespace engramd::engine {

Step::Step(const Model& model, kernels::Backend& backend, KvCache& cache)
    : model_(&model),
      cache_(&cache),
      addresser_(model.layout, model.pad_class()),
      forward_(model, backend) {
  rows_.resize(model.layout.layers.size());
}

std::span<const float> Step::run(std::span<const SequenceSlice> slices, std::stop_token stop,
                                 ForwardTrace* trace) {
  tokens_.clear();
  slots_.clear();
  engram_enabled_.clear();
  logits_of_.clear();
  block_tables_.clear();
  for (auto& rows : rows_) rows.clear();
  for (const SequenceSlice& slice : slices) {
    const Sequence& sequence = *slice.sequence;
    ENGRAMD_ASSERT(slice.begin <= sequence.n_cached() && slice.end <= sequence.size());
    const auto index = static_cast<std::int32_t>(block_tables_.size());
    block_tables_.push_back(sequence.block_table());
    const bool enabled = sequence.engram_enabled() && !slice.leave_engram_out;
    for (std::int64_t position = slice.begin; position < slice.end; ++position) {
      if (!slice.no_logits && (slice.all_logits || position + 1 == slice.end)) {
        logits_of_.push_back(static_cast<std::int32_t>(tokens_.size()));
      }
      tokens_.push_back(sequence.tokens()[static_cast<std::size_t>(position)]);
      slots_.push_back({index, static_cast<std::int32_t>(position)});
      engram_enabled_.push_back(enabled ? 1 : 0);
    }
    address(slice);
  }
  cache_->point_views(block_tables_.data(), views_);
  const ForwardBatch batch{tokens_,       slots_,      engram_enabled_, rows_,
                           views_.latent, views_.conv, logits_of_};
  const auto logits = forward_.run(batch, stop, trace);
  if (stop.stop_requested()) return {};
  for (const SequenceSlice& slice : slices) slice.sequence->set_cached(slice.end);
  return logits;
}

void Step::address(const SequenceSlice& slice) {
  const auto n_columns = static_cast<std::size_t>(model_->layout.n_columns());
  const auto n_tokens = static_cast<std::size_t>(slice.end - slice.begin);
  for (std::size_t layer = 0; layer < rows_.size(); ++layer) {
    auto& rows = rows_[layer];
    const std::size_t first = rows.size();
    rows.resize(first + n_tokens * n_columns);
    keys_.resize(n_tokens * static_cast<std::size_t>(model_->layout.n_orders()));
    addresser_.rows(static_cast<int>(layer), slice.sequence->classes(), slice.begin, slice.end,
                    rows.data() + first, keys_.data());
    if (slice.counts != nullptr && slice.sequence->engram_enabled()) {
      count(slice, static_cast<int>(layer), rows.data() + first, keys_);
    }
  }
}

void Step::count(const SequenceSlice& slice, int layer, const std::int64_t* rows,
                 std::span<const NgramKey> keys) {
  const auto n_orders = static_cast<std::size_t>(model_->layout.n_orders());
  const int n_heads = model_->layout.config.n_heads;
  const std::uint16_t* owner = model_->engram_block(static_cast<std::size_t>(layer)).owner;
  auto& orders = slice.counts->orders;
  orders.resize(n_orders);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    EngramCounts::PerOrder& counts = orders[i % n_orders];
    const std::uint16_t tag = owner_tag(keys[i].mix);
    counts.lookups += n_heads;
    if (keys[i].bypassed) counts.bypassed += n_heads;
    for (int head = 0; head < n_heads; ++head) {
      const std::uint16_t found = owner[*rows++];
      if (keys[i].bypassed) continue;
      counts.occupied += found != 0 ? 1 : 0;
      counts.owned += found == tag ? 1 : 0;
    }
  }
}

}  // namespace engramd::engine
