// TrainingNgrams: whether the text that the model learnt from held an N-gram: its list of N-grams
// beside the model (seen three times or more), and the owner tags of the rows for rarer ones.
// An N-gram that owns one of its rows was there; a rare one that owns none is taken for new.
// Immutable after open: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/engram/live_tables.h"
#include "engine/engram/ngram_list.h"
#include "engine/model/model.h"

namespace engramd::engine {

// What an exact N-gram reads in all heads of its order at one layer.
struct NgramEntry {
  std::int32_t layer = 0;       // index into EngramLayout::layers
  std::int32_t order_slot = 0;  // 0: order 2
  std::uint64_t mix = 0;        // NgramKey::mix

  auto operator<=>(const NgramEntry&) const = default;
};

class TrainingNgrams {
 public:
  // ngram_list: a file that may be absent; then only the owner tags speak.
  static Result<TrainingNgrams> open(const std::string& ngram_list, const Model& model,
                                     std::shared_ptr<BaseTables> base);

  bool holds(const NgramEntry& entry) const;

 private:
  TrainingNgrams(const Model& model, std::shared_ptr<BaseTables> base)
      : model_(&model), base_(std::move(base)) {}

  const Model* model_;
  std::shared_ptr<BaseTables> base_;
  std::vector<std::vector<std::uint64_t>> listed_;  // [layer * n_orders + slot] mixes, ascending
};

}  // namespace engramd::engine
