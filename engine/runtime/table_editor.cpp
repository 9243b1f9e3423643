#include "engine/runtime/table_editor.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "engine/engram/hex.h"

namespace engramd::engine {
namespace {

std::string count_of(std::size_t n, const char* what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

// The part of the request's values that belongs to cell `i` of `n`.
Result<std::vector<float>> values_for(const EditRequest& request, std::size_t i, std::size_t n,
                                      std::size_t head_dim) {
  if (request.operation != EditOperation::kSet && request.operation != EditOperation::kAdd) {
    if (request.values.empty()) return std::vector<float>();
    return invalid_argument("values: expected only with the operations set and add");
  }
  if (request.values.size() == n * head_dim) {
    const auto first = request.values.begin() + static_cast<std::ptrdiff_t>(i * head_dim);
    return std::vector<float>(first, first + static_cast<std::ptrdiff_t>(head_dim));
  }
  return invalid_argument("values: expected " + std::to_string(head_dim) + " numbers for each of " +
                          count_of(n, "row") + " (" + std::to_string(n * head_dim) + "), got " +
                          std::to_string(request.values.size()) +
                          "; choose one row with layer and head, or give them all");
}

std::string ngram_text(const Tokenizer& tokenizer, const TokenMap& map,
                       const std::vector<std::int32_t>& classes) {
  std::vector<TokenId> ids;  // of each class, the first token: its text without folded differences
  for (const std::int32_t wanted : classes) {
    const auto found = std::find(map.classes.begin(), map.classes.end(), wanted);
    ids.push_back(static_cast<TokenId>(found - map.classes.begin()));
  }
  const auto text = tokenizer.decode(ids);
  return text.has_value() ? *text : std::string();
}

}  // namespace

TableEditor::TableEditor(const Model& model, LiveTables& tables, const Tokenizer& tokenizer,
                         std::string ngram_list)
    : model_(&model),
      tables_(&tables),
      tokenizer_(&tokenizer),
      ngram_list_path_(std::move(ngram_list)) {}

Result<std::vector<int>> TableEditor::layers_of(const RowSelector& where) const {
  const EngramLayout& layout = model_->layout;
  if (layout.layers.empty()) {
    return invalid_argument("this model has no Engram layers: there are no tables to edit");
  }
  std::vector<int> layers;
  std::string known;
  for (std::size_t i = 0; i < layout.layers.size(); ++i) {
    const std::int64_t id = layout.layers[i].layer_id;
    if (!where.layer || *where.layer == id) layers.push_back(static_cast<int>(i));
    known += (known.empty() ? "" : ", ") + std::to_string(id);
  }
  if (!layers.empty()) return layers;
  return invalid_argument("layer " + std::to_string(*where.layer) +
                          " has no Engram; expected one of: " + known);
}

Result<std::vector<std::int32_t>> TableEditor::classes_of(const RowSelector& where) const {
  std::vector<TokenId> ids;
  if (where.text) {
    auto encoded = tokenizer_->encode(*where.text, false);
    if (!encoded) return encoded.error();
    ids = std::move(*encoded);
  } else {
    ids = *where.tokens;
  }
  const int longest = model_->layout.config.max_ngram_size;
  if (ids.size() < 2 || static_cast<int>(ids.size()) > longest) {
    std::string tokens;
    for (const TokenId id : ids) {
      const auto text = tokenizer_->decode({id});
      tokens += (tokens.empty() ? "" : "|") + (text.has_value() ? *text : std::string("?"));
      if (tokens.size() > 120) break;
    }
    return invalid_argument("an N-gram of these tables has 2 to " + std::to_string(longest) +
                            " tokens, got " + std::to_string(ids.size()) + " (" + tokens +
                            "); engram_lookup shows how a text is cut into N-grams");
  }
  return compress_tokens(model_->token_map, ids, model_->layout.config.dead_token_id);
}

Result<std::vector<SelectedCell>> TableEditor::select(const RowSelector& where,
                                                      std::optional<EditScope> scope) const {
  const int n_ways = (where.text ? 1 : 0) + (where.tokens ? 1 : 0) + (where.row ? 1 : 0);
  if (n_ways != 1) {
    return invalid_argument("expected exactly one of text, tokens and row, got " +
                            std::to_string(n_ways));
  }
  if (where.row) {
    if (scope == EditScope::kNgram) {
      return invalid_argument(
          "scope ngram: expected an N-gram (text or tokens); a row has no N-gram of its own");
    }
    return select_row(where);
  }
  const auto layers = layers_of(where);
  if (!layers) return layers.error();
  const auto classes = classes_of(where);
  if (!classes) return classes.error();
  const EngramLayout& layout = model_->layout;
  const int n_heads = layout.config.n_heads;
  if (where.head && (*where.head < 0 || *where.head >= n_heads)) {
    return invalid_argument("head: expected 0 to " + std::to_string(n_heads - 1) + ", got " +
                            std::to_string(*where.head));
  }
  const auto order = static_cast<int>(classes->size());
  std::vector<SelectedCell> cells;
  for (const int layer : *layers) {
    const EngramLayer& address = layout.layers[static_cast<std::size_t>(layer)];
    const std::uint64_t mix = mix_of(address, *classes);
    for (int head = 0; head < n_heads; ++head) {
      if (where.head && *where.head != head) continue;
      const int column = (order - 2) * n_heads + head;
      const std::int64_t row = row_of(address, column, mix);
      const EditTarget target =
          scope == EditScope::kRow ? row_target(layer, row) : ngram_target(layer, column, mix);
      cells.push_back({layer, address.layer_id, order, head, row, target});
    }
  }
  return cells;
}

Result<std::vector<SelectedCell>> TableEditor::select_row(const RowSelector& where) const {
  if (!where.layer) return invalid_argument("row: expected with a layer, got none");
  if (where.head) return invalid_argument("head: a row belongs to one head; leave it out");
  const auto layers = layers_of(where);
  if (!layers) return layers.error();
  const int layer = layers->front();
  const std::int64_t n_rows = model_->layout.layers[static_cast<std::size_t>(layer)].n_rows;
  if (*where.row < 0 || *where.row >= n_rows) {
    return invalid_argument("row: expected 0 to " + std::to_string(n_rows - 1) + " in layer " +
                            std::to_string(*where.layer) + ", got " + std::to_string(*where.row));
  }
  return std::vector<SelectedCell>{describe(row_target(layer, *where.row))};
}

SelectedCell TableEditor::describe(const EditTarget& target) const {
  const EngramLayout& layout = model_->layout;
  const EngramLayer& layer = layout.layers[static_cast<std::size_t>(target.layer)];
  std::int64_t row = target.id;
  int column = target.column;
  if (target.scope == EditScope::kNgram) {
    row = row_of(layer, column, static_cast<std::uint64_t>(target.id));
  } else {
    const auto after = std::upper_bound(layer.offsets.begin(), layer.offsets.end(), row);
    column = static_cast<int>(after - layer.offsets.begin()) - 1;
  }
  return {target.layer, layer.layer_id, layout.order_of(column), layout.head_of(column),
          row,          target};
}

Result<CellValue> TableEditor::read(const SelectedCell& cell) const {
  if (const auto store = tables_->opened_store()) {
    auto stored = store->get(cell.target);
    if (!stored) return stored.error();
    return CellValue{cell, std::move(*stored)};
  }
  // Without edits the base row is in effect; reading must not make an edit file.
  const TableView view = tables_->view();
  RowSource& base = *view.base->layers[static_cast<std::size_t>(cell.layer)];
  const RowFormat format = base.format();
  StoredRow stored;
  stored.image.resize(static_cast<std::size_t>(format.row_bytes()));
  if (auto done = base.read({&cell.row, 1}, stored.image.data(), {}); !done) return done.error();
  stored.values.resize(static_cast<std::size_t>(format.n_columns));
  decode_row(format.codec, stored.image.data(), stored.values, format.tensor_scale);
  return CellValue{cell, std::move(stored)};
}

Result<std::vector<CellValue>> TableEditor::get(const RowSelector& where,
                                                std::optional<EditScope> scope) {
  if (!tables_->edits_error().empty()) return unavailable(tables_->edits_error());
  const auto cells = select(where, scope);
  if (!cells) return cells.error();
  std::vector<CellValue> values;
  for (const SelectedCell& cell : *cells) {
    auto value = read(cell);
    if (!value) return value.error();
    values.push_back(std::move(*value));
  }
  return values;
}

Result<void> TableEditor::append(const EditRequest& request, std::vector<Edit>& edits,
                                 std::vector<SelectedCell>& cells) {
  const auto selected = select(request.where, request.scope);
  if (!selected) return selected.error();
  std::vector<SelectedCell> sources;
  if ((request.operation == EditOperation::kCopy) != request.from.has_value()) {
    return invalid_argument("from: expected with the operation copy, and only there");
  }
  if (request.from) {
    auto from = select(*request.from, std::nullopt);
    if (!from) return from.error();
    sources = std::move(*from);
    if (sources.size() != selected->size()) {
      return invalid_argument("copy: expected as many rows in `from` as are written (" +
                              std::to_string(selected->size()) + "), got " +
                              std::to_string(sources.size()) +
                              "; N-grams of different orders can be copied row by row, with head");
    }
  }
  const auto head_dim = static_cast<std::size_t>(model_->layout.config.head_dim);
  std::vector<std::uint8_t> expected;
  const std::int64_t image_bytes = tables_->view().base->format(0).row_bytes();
  if (request.expected_image) {
    auto bytes = bytes_of_hex(*request.expected_image);
    if (!bytes || static_cast<std::int64_t>(bytes->size()) !=
                      image_bytes * static_cast<std::int64_t>(selected->size())) {
      return invalid_argument(
          "expected_image: expected " +
          std::to_string(2 * image_bytes * static_cast<std::int64_t>(selected->size())) +
          " hexadecimal digits (the images of " + count_of(selected->size(), "row") + "), got " +
          std::to_string(request.expected_image->size()) + " characters");
    }
    expected = std::move(*bytes);
  }
  for (std::size_t i = 0; i < selected->size(); ++i) {
    Edit edit;
    edit.target = (*selected)[i].target;
    edit.operation = request.operation;
    edit.factor = request.factor;
    auto values = values_for(request, i, selected->size(), head_dim);
    if (!values) return values.error();
    edit.values = std::move(*values);
    if (!sources.empty()) edit.source = sources[i].target;
    if (!expected.empty()) {
      const auto first = expected.begin() + static_cast<std::ptrdiff_t>(i) * image_bytes;
      edit.expected_image = std::vector<std::uint8_t>(first, first + image_bytes);
    }
    edits.push_back(std::move(edit));
    cells.push_back((*selected)[i]);
  }
  return {};
}

Result<EditOutcome> TableEditor::edit(const std::vector<EditRequest>& requests,
                                      const std::string& author, const std::string& reason,
                                      bool is_dry_run) {
  if (requests.empty() || requests.size() > kRequestsMax) {
    return limit_exceeded("edits: expected 1 to " + std::to_string(kRequestsMax) +
                          " in one call, got " + std::to_string(requests.size()));
  }
  std::vector<Edit> edits;
  std::vector<SelectedCell> cells;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (const auto done = append(requests[i], edits, cells); !done) {
      return Error{done.error().kind, "edit " + std::to_string(i) + ": " + done.error().message};
    }
  }
  const auto commit = [&]() -> Result<StoredTransaction> {
    const auto store = tables_->store();
    if (!store) return store.error();
    return (*store)->commit(std::move(edits), author, reason);
  };
  EditOutcome outcome;
  auto stored = is_dry_run ? tables_->dry_run(std::move(edits)) : commit();
  if (!stored) return stored.error();
  outcome.stored = std::move(*stored);
  std::map<EditTarget, SelectedCell> by_target;
  for (const SelectedCell& cell : cells) by_target.emplace(cell.target, cell);
  for (const StoredChange& change : outcome.stored.changes) {
    outcome.cells.push_back(by_target.at(change.target));
  }
  if (is_dry_run) {
    auto shared = shared_rows(outcome.cells, requests);
    if (!shared) return shared.error();
    outcome.shared = std::move(*shared);
  }
  return outcome;
}

Result<std::vector<SharedRow>> TableEditor::shared_rows(const std::vector<SelectedCell>& cells,
                                                        const std::vector<EditRequest>& requests) {
  std::vector<SharedRow> shared;
  std::error_code code;
  if (!std::filesystem::exists(ngram_list_path_, code)) return shared;
  {
    const std::lock_guard lock(mutex_);
    if (!ngram_list_) {
      auto list = NgramList::open(ngram_list_path_, model_->layout);
      if (!list) return list.error();
      ngram_list_ = std::move(*list);
    }
  }
  std::vector<std::vector<std::int32_t>> selected;  // the N-grams that were asked for
  for (const EditRequest& request : requests) {
    if (request.where.row) continue;
    if (auto classes = classes_of(request.where); classes) selected.push_back(std::move(*classes));
  }
  for (const SelectedCell& cell : cells) {
    if (cell.target.scope != EditScope::kRow) continue;
    const int column = (cell.order - 2) * model_->layout.config.n_heads + cell.head;
    const auto readers = ngram_list_->readers(cell.layer, column, cell.row);
    SharedRow row{cell, static_cast<std::int64_t>(readers.size()), {}};
    for (const std::int64_t index : readers) {
      if (row.readers.size() == kReadersShown) break;
      const ListedNgram ngram = ngram_list_->at(cell.order, index);
      const bool is_selected =
          std::find(selected.begin(), selected.end(), ngram.classes) != selected.end();
      row.readers.push_back(
          {ngram_text(*tokenizer_, model_->token_map, ngram.classes), ngram.count, is_selected});
    }
    shared.push_back(std::move(row));
  }
  return shared;
}

}  // namespace engramd::engine
