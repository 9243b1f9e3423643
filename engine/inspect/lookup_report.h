// LookupReport: which N-grams a text looks up, and what lies in the rows. Plain data made by
// make_lookup_report; works with loaded tables or from a layout alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/engram/prefetcher.h"
#include "engine/engram/token_map.h"
#include "engine/tokenizer/tokenizer.h"

namespace engramd::engine {

struct LookupCell {  // one row of the table at one position
  int order = 0;
  int head = 0;
  std::int64_t row = 0;                 // flat index within the layer's table
  std::optional<bool> occupied, owned;  // absent without a loaded table
  std::optional<double> row_norm;       // of what a forward pass reads, edits included
  // The transaction whose image stands in for the base row; 0: none.
  std::int64_t edited_by = 0;
  bool edited_exactly = false;  // for this N-gram alone, not for all who share the row
};

struct LookupNgram {  // one order at one position
  int order = 0;
  std::string text;                   // its tokens decoded together; fewer when bypassed
  std::vector<std::int32_t> classes;  // compressed ids, oldest first; shorter when bypassed
  bool bypassed = false;
};

struct LookupLayer {
  std::int64_t layer_id = 0;
  std::vector<LookupCell> cells;  // [n_columns]
};

struct LookupPosition {
  TokenId token = 0;
  std::string text;
  std::int32_t compressed_id = 0;
  std::vector<LookupNgram> ngrams;  // [n_orders]
  std::vector<LookupLayer> layers;  // those asked for
};

struct LookupReport {
  std::vector<LookupPosition> positions;
  // Cells over position, layer, order and head; occupied and owned ones count unless bypassed.
  std::int64_t n_lookups = 0, n_bypassed = 0, n_occupied = 0, n_owned = 0;
  double hit_rate = 0;  // owned / (lookups - bypassed); 0 without a loaded table
};

struct LookupOptions {
  std::vector<std::int64_t> layer_ids;  // empty: all Engram layers of the layout
  std::int64_t positions_max = 4096;
};

// Errors: a layer id without Engram, a token id outside the vocabulary, too many positions.
Result<LookupReport> make_lookup_report(const std::vector<TokenId>& ids, const Tokenizer& tokenizer,
                                        const TokenMap& map, const Addresser& addresser,
                                        const TableView* tables, const LookupOptions& options);

}  // namespace engramd::engine
