// TextRows: the Engram rows that a text reads, as floats, and the N-grams by which it reads them.
// Threads: one at a time; owns a Prefetcher. Not here: changing them (taught_entries).
#pragma once

#include <span>
#include <vector>

#include "config/result.h"
#include "engine/engram/prefetcher.h"
#include "engine/model/model.h"
#include "kernels/backend.h"

namespace engramd::engine {

struct RowsOfText {
  std::vector<std::vector<NgramKey>> keys;  // per Engram layer [n_tokens, n_orders]
  std::vector<std::vector<float>> rows;     // per Engram layer [n_tokens, columns_width]
};

class TextRows {
 public:
  // Both outlive this.
  TextRows(const Model& model, kernels::Backend& backend);

  // The N-grams alone: what a text addresses, read from no table.
  std::vector<std::vector<NgramKey>> keys(std::span<const TokenId> tokens) const;
  // As `view` shows them. Errors: a row that cannot be read.
  Result<RowsOfText> read(std::span<const TokenId> tokens, const TableView& view);

 private:
  struct Addresses {
    std::vector<std::vector<std::int64_t>> rows;  // per Engram layer [n_tokens, n_columns]
    std::vector<std::vector<NgramKey>> keys;      // per Engram layer [n_tokens, n_orders]
  };
  Addresses address(std::span<const TokenId> tokens) const;

  const Model* model_;
  kernels::Backend* backend_;
  Addresser addresser_;
  Prefetcher prefetcher_;
};

}  // namespace engramd::engine
