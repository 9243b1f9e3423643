#include "engine/teach/text_rows.h"

#include <utility>

#include "engine/engram/row_codec.h"

namespace engramd::engine {

TextRows::TextRows(const Model& model, kernels::Backend& backend)
    : model_(&model),
      backend_(&backend),
      addresser_(model.layout, model.pad_class()),
      prefetcher_(model.layout, false) {}

TextRows::Addresses TextRows::address(std::span<const TokenId> tokens) const {
  std::vector<std::int32_t> classes;
  for (const TokenId token : tokens) {
    classes.push_back(model_->token_map.classes[static_cast<std::size_t>(token)]);
  }
  const EngramLayout& layout = model_->layout;
  Addresses found;
  for (std::size_t layer = 0; layer < layout.layers.size(); ++layer) {
    found.rows.emplace_back(tokens.size() * static_cast<std::size_t>(layout.n_columns()));
    found.keys.emplace_back(tokens.size() * static_cast<std::size_t>(layout.n_orders()));
    addresser_.rows(static_cast<int>(layer), classes, 0, static_cast<std::int64_t>(tokens.size()),
                    found.rows.back().data(), found.keys.back().data());
  }
  return found;
}

std::vector<std::vector<NgramKey>> TextRows::keys(std::span<const TokenId> tokens) const {
  return address(tokens).keys;
}

Result<RowsOfText> TextRows::read(std::span<const TokenId> tokens, const TableView& view) {
  const auto n_tokens = static_cast<std::int64_t>(tokens.size());
  const EngramLayout& layout = model_->layout;
  Addresses addresses = address(tokens);
  RowsOfText text;
  prefetcher_.begin(view, addresses.rows, addresses.keys, {});
  for (int layer = 0; layer < static_cast<int>(layout.layers.size()); ++layer) {
    const auto places = prefetcher_.wait(layer);
    if (!places) {
      const Error error = places.error();
      prefetcher_.end();
      return error;
    }
    auto& values =
        text.rows.emplace_back(tokens.size() * static_cast<std::size_t>(layout.columns_width()));
    backend_->engram_gather(prefetcher_.format(layer), places->data(), n_tokens, layout.n_columns(),
                            values.data());
    round_row_values(prefetcher_.row_dtype(), values);
  }
  prefetcher_.end();
  text.keys = std::move(addresses.keys);
  return text;
}

}  // namespace engramd::engine
