#include "engine/teach/training_ngrams.h"

#include <algorithm>
#include <filesystem>

#include "engine/engram/addresser.h"

namespace engramd::engine {

Result<TrainingNgrams> TrainingNgrams::open(const std::string& ngram_list, const Model& model,
                                            std::shared_ptr<BaseTables> base) {
  TrainingNgrams ngrams(model, std::move(base));
  const EngramLayout& layout = model.layout;
  ngrams.listed_.resize(layout.layers.size() * static_cast<std::size_t>(layout.n_orders()));
  if (!std::filesystem::exists(ngram_list)) return ngrams;
  const auto list = NgramList::open(ngram_list, layout);
  if (list.has_error()) return list.error();
  for (int slot = 0; slot < layout.n_orders(); ++slot) {
    for (std::int64_t i = 0; i < list->size(slot + 2); ++i) {
      const std::vector<std::int32_t> classes = list->at(slot + 2, i).classes;
      for (std::size_t layer = 0; layer < layout.layers.size(); ++layer) {
        ngrams
            .listed_[layer * static_cast<std::size_t>(layout.n_orders()) +
                     static_cast<std::size_t>(slot)]
            .push_back(mix_of(layout.layers[layer], classes));
      }
    }
  }
  for (auto& mixes : ngrams.listed_) std::sort(mixes.begin(), mixes.end());
  return ngrams;
}

bool TrainingNgrams::holds(const NgramEntry& entry) const {
  const EngramLayout& layout = model_->layout;
  const auto layer = static_cast<std::size_t>(entry.layer);
  const auto& listed = listed_[layer * static_cast<std::size_t>(layout.n_orders()) +
                               static_cast<std::size_t>(entry.order_slot)];
  if (std::binary_search(listed.begin(), listed.end(), entry.mix)) return true;
  const std::uint16_t* owners = base_->owners[layer];
  if (owners == nullptr) return false;
  for (int head = 0; head < layout.config.n_heads; ++head) {
    const int column = entry.order_slot * layout.config.n_heads + head;
    if (owners[row_of(layout.layers[layer], column, entry.mix)] == owner_tag(entry.mix))
      return true;
  }
  return false;
}

}  // namespace engramd::engine
