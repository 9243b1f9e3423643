#include "engine/runtime/device_check.h"

#include <algorithm>
#include <vector>

#include "engine/runtime/step.h"

namespace engramd::engine {

namespace {

constexpr TokenId kCheckTokens = 12;  // more than the few that stream weights: both ways are run

// Logits of a made-up text's last prompt token and of one more by itself.
Result<std::vector<float>> logits_of(const Model& model, const LiveTables& tables,
                                     kernels::Backend& backend) {
  auto cache = KvCache::make(model, kernels::DType::kF32, 1, &backend);
  if (cache.has_error()) return cache.error();
  Step step(model, backend, *cache);
  Sequence sequence(model.token_map, *cache, true);
  for (TokenId i = 0; i <= kCheckTokens; ++i) {
    sequence.append(static_cast<TokenId>((std::int64_t{i} * 7919 + 11) % model.config.vocab_size));
  }
  if (!sequence.reserve(sequence.size())) return unavailable("the check needs one cache block");
  std::vector<float> all;
  for (const std::int64_t end : {std::int64_t{kCheckTokens}, std::int64_t{kCheckTokens} + 1}) {
    SequenceSlice slice{&sequence, sequence.n_cached(), end};
    const auto logits = step.run({&slice, 1}, tables.view(), {});
    if (logits.has_error()) return logits.error();
    all.insert(all.end(), logits->begin(), logits->end());
  }
  return all;
}

}  // namespace

Result<double> device_error(const Model& model, const LiveTables& tables, kernels::Backend& device,
                            kernels::Backend& reference) {
  const auto got = logits_of(model, tables, device);
  if (got.has_error()) return got.error();
  const auto expected = logits_of(model, tables, reference);
  if (expected.has_error()) return expected.error();
  double error = 0;
  double power = 1e-30;
  for (std::size_t i = 0; i < expected->size(); ++i) {
    const double difference = double{(*got)[i]} - (*expected)[i];
    error += difference * difference;
    power += double{(*expected)[i]} * (*expected)[i];
  }
  return error / power;
}

}  // namespace engramd::engine
