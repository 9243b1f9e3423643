// TableEditor: the rows of a serving model's tables as people point at them, by an N-gram's text or
// token ids or by row, and their edits as people ask for them. Turns both into targets of the table
// store and says what was done.
// An N-gram reads one row per layer and head of its order; without `layer` or `head` a selector
// means all of them.
// Threads: any; edits take turns inside the store.
// Not here: storing (table_store), JSON (server/tools).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/engram/live_tables.h"
#include "engine/engram/ngram_list.h"
#include "engine/model/model.h"
#include "engine/tokenizer/tokenizer.h"

namespace engramd::engine {

// Exactly one of text, tokens and row.
struct RowSelector {
  std::optional<std::string> text;             // encodes to the tokens of one N-gram
  std::optional<std::vector<TokenId>> tokens;  // oldest first
  std::optional<std::int64_t> row;             // with `layer`
  std::optional<std::int64_t> layer;           // layer id
  std::optional<int> head;
};

struct EditRequest {
  RowSelector where;
  // Absent: kNgram for an N-gram, kRow for a row.
  std::optional<EditScope> scope;
  EditOperation operation = EditOperation::kSet;
  std::vector<float> values;        // kSet, kAdd: [head_dim] for one cell, or [n_cells * head_dim]
  float factor = 1.0F;              // kScale
  std::optional<RowSelector> from;  // kCopy: as many cells as `where`
  std::optional<std::string> expected_image;  // hex, of all cells one after the other
};

struct SelectedCell {  // one row of the tables
  int layer = 0;       // index into EngramLayout::layers
  std::int64_t layer_id = 0;
  int order = 0, head = 0;
  std::int64_t row = 0;
  EditTarget target;
};

struct CellValue {
  SelectedCell cell;
  StoredRow stored;
};

// Whom else an edit of a bucket touches.
struct SharedRow {
  SelectedCell cell;
  std::int64_t n_listed = 0;  // N-grams of the training text that read this row
  struct Reader {
    std::string text;
    std::int64_t count = 0;  // in the training text
    bool is_selected = false;
  };
  std::vector<Reader> readers;  // the most frequent
};

struct EditOutcome {
  StoredTransaction stored;         // changes in the order of the cells' targets
  std::vector<SelectedCell> cells;  // parallel to stored.changes
  std::vector<SharedRow> shared;    // of row-scoped edits; dry runs only
};

class TableEditor {
 public:
  static constexpr std::size_t kRequestsMax = 1024;  // of one call
  static constexpr std::size_t kReadersShown = 8;

  // All outlive this. ngram_list: may name a file that does not exist.
  TableEditor(const Model& model, LiveTables& tables, const Tokenizer& tokenizer,
              std::string ngram_list);

  Result<std::vector<SelectedCell>> select(const RowSelector& where,
                                           std::optional<EditScope> scope) const;
  Result<std::vector<CellValue>> get(const RowSelector& where, std::optional<EditScope> scope);
  Result<EditOutcome> edit(const std::vector<EditRequest>& requests, const std::string& author,
                           const std::string& reason, bool is_dry_run);
  // What a stored target is called: of an N-gram, its column only (text is not stored).
  SelectedCell describe(const EditTarget& target) const;

  LiveTables& tables() { return *tables_; }

 private:
  Result<std::vector<std::int32_t>> classes_of(const RowSelector& where) const;
  Result<std::vector<SelectedCell>> select_row(const RowSelector& where) const;
  Result<void> append(const EditRequest& request, std::vector<Edit>& edits,
                      std::vector<SelectedCell>& cells);
  Result<std::vector<SharedRow>> shared_rows(const std::vector<SelectedCell>& cells,
                                             const std::vector<EditRequest>& requests);
  Result<std::vector<int>> layers_of(const RowSelector& where) const;
  Result<CellValue> read(const SelectedCell& cell) const;

  const Model* model_;
  LiveTables* tables_;
  const Tokenizer* tokenizer_;
  const std::string ngram_list_path_;
  std::mutex mutex_;  // guards the list's opening
  std::optional<NgramList> ngram_list_;
};

}  // namespace engramd::engine
