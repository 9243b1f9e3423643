#include "engine/engram/table_store.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "config/assert.h"
#include "engine/engram/addresser.h"

namespace engramd::engine {
namespace {

constexpr std::size_t kBatchRows = 256;  // edits whose base rows are read by one request

std::string describe(const EditTarget& target) {
  const std::string layer = " of layer slot " + std::to_string(target.layer);
  if (target.scope == EditScope::kRow) return "row " + std::to_string(target.id) + layer;
  return "N-gram " + std::to_string(static_cast<std::uint64_t>(target.id)) + " in column " +
         std::to_string(target.column) + layer;
}

Result<void> check_text(const char* what, const std::string& text, std::size_t bytes_max) {
  if (text.size() <= bytes_max && text.find('\0') == std::string::npos) return {};
  return invalid_argument(std::string(what) + " must be at most " + std::to_string(bytes_max) +
                          " bytes without zeros, got " + std::to_string(text.size()) + " bytes");
}

Result<void> check_limit(std::int64_t limit) {
  if (limit >= 1 && limit <= TableStore::kListMax) return {};
  return invalid_argument("limit must be 1 to " + std::to_string(TableStore::kListMax) + ", got " +
                          std::to_string(limit));
}

std::string identity_text(const TableIdentity& identity, const EngramLayout& layout,
                          const std::vector<RowFormat>& formats) {
  std::string text = "layout " + identity.layout_hash + ", token map " + identity.token_map_hash +
                     ", base generation " + std::to_string(identity.base_generation) +
                     ", content " + identity.base_content + ", rows";
  for (std::size_t i = 0; i < formats.size(); ++i) {
    text += " " + std::to_string(layout.layers[i].n_rows) + " x " +
            std::to_string(formats[i].n_columns) + " " + name_of(formats[i].codec);
  }
  return text;
}

}  // namespace

EditTarget row_target(int layer, std::int64_t row) {
  return {layer, EditScope::kRow, -1, row};
}
EditTarget ngram_target(int layer, int column, std::uint64_t mix) {
  return {layer, EditScope::kNgram, column, static_cast<std::int64_t>(mix)};
}

// One transaction under way, in the log and in the next epoch. What is not finished is undone.
class TableStore::Writer {
 public:
  Writer(TableStore& store, const Overlay& before)
      : store_(store), builder_(before, static_cast<std::uint64_t>(store.log_->last() + 1)) {}
  ~Writer() { store_.log_->abandon(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  Result<void> begin() { return store_.log_->begin(); }
  Result<void> add(const RowChange& change) {
    if (change.new_writer == 0) {
      builder_.erase(change.target);
    } else {
      builder_.set(change.target, change.new_image, change.new_writer);
    }
    return store_.log_->append(change);
  }
  Result<Transaction> finish(Transaction header) {
    auto next = std::move(builder_).finish();  // before COMMIT: nothing may fail after it
    auto committed = store_.log_->commit(std::move(header));
    if (committed) store_.publish(std::move(next));
    return committed;
  }

 private:
  TableStore& store_;
  OverlayBuilder builder_;
};

TableStore::TableStore(const EngramLayout& layout, std::vector<RowSource*> base)
    : layout_(&layout), base_(std::move(base)) {}

Result<std::unique_ptr<TableStore>> TableStore::open(const std::string& path,
                                                     const TableIdentity& identity,
                                                     const EngramLayout& layout,
                                                     std::vector<RowSource*> base,
                                                     const std::string& vfs) {
  if (base.size() != layout.layers.size()) {
    return invalid_argument("the layout has " + std::to_string(layout.layers.size()) +
                            " Engram layers, got tables for " + std::to_string(base.size()));
  }
  std::vector<std::int64_t> bytes;
  std::vector<RowFormat> formats;
  for (std::size_t i = 0; i < base.size(); ++i) {
    if (base[i]->n_rows() != layout.layers[i].n_rows ||
        base[i]->format().n_columns != layout.config.head_dim) {
      return invalid_argument(
          "table of layer slot " + std::to_string(i) + " has " + std::to_string(base[i]->n_rows()) +
          " rows of " + std::to_string(base[i]->format().n_columns) +
          " columns, the layout expects " + std::to_string(layout.layers[i].n_rows) + " rows of " +
          std::to_string(layout.config.head_dim) + ": name the table that belongs to the model");
    }
    formats.push_back(base[i]->format());
    bytes.push_back(formats.back().row_bytes());
  }
  std::unique_ptr<TableStore> store(new TableStore(layout, std::move(base)));
  const Overlay nothing(bytes);
  OverlayBuilder builder(nothing, 0);
  const auto replay = [&](const RowChange& change) -> Result<void> {
    if (auto checked = store->check(change.target); !checked) return checked;
    if (static_cast<std::int64_t>(change.new_image.size()) !=
        store->image_bytes(change.target.layer)) {
      return invalid_argument("edit log " + path + " has an image of " +
                              std::to_string(change.new_image.size()) + " bytes, expected " +
                              std::to_string(store->image_bytes(change.target.layer)));
    }
    if (change.new_writer == 0) {
      builder.erase(change.target);
    } else {
      builder.set(change.target, change.new_image, change.new_writer);
    }
    return {};
  };
  auto log = EditLog::open(path, identity_text(identity, layout, formats), vfs, replay);
  if (!log) return log.error();
  store->log_ = std::move(*log);
  store->publish(std::move(builder).finish(static_cast<std::uint64_t>(store->log_->last())));
  return store;
}

Result<std::optional<Successor>> TableStore::successor_of(const std::string& path,
                                                          const TableIdentity& identity,
                                                          const EngramLayout& layout,
                                                          const RowFormat& format) {
  const std::vector<RowFormat> formats(layout.layers.size(), format);
  return EditLog::successor_of(path, identity_text(identity, layout, formats), {});
}

std::shared_ptr<const Overlay> TableStore::overlay() const {
  const std::lock_guard lock(swap_);
  return current_;
}

void TableStore::publish(std::shared_ptr<const Overlay> next) {
  {
    const std::lock_guard lock(swap_);
    current_.swap(next);
  }
  // The epoch before it goes here, outside the lock, unless a reader still holds it.
}

std::int64_t TableStore::image_bytes(int layer) const {
  return format(layer).codes_bytes() + format(layer).scales_bytes();
}

Result<void> TableStore::check(const EditTarget& target) const {
  const auto n_layers = static_cast<int>(layout_->layers.size());
  if (target.layer < 0 || target.layer >= n_layers) {
    return invalid_argument("layer slot must be 0 to " + std::to_string(n_layers - 1) + ", got " +
                            std::to_string(target.layer));
  }
  const EngramLayer& layer = layout_->layers[static_cast<std::size_t>(target.layer)];
  if (target.scope == EditScope::kRow) {
    if (target.column == -1 && target.id >= 0 && target.id < layer.n_rows) return {};
    return invalid_argument("row must be 0 to " + std::to_string(layer.n_rows - 1) + ", got " +
                            std::to_string(target.id));
  }
  if (target.column >= 0 && target.column < layout_->n_columns()) return {};
  return invalid_argument("column must be 0 to " + std::to_string(layout_->n_columns() - 1) +
                          ", got " + std::to_string(target.column));
}

std::vector<float> TableStore::decode(int layer, const std::vector<std::uint8_t>& image) const {
  const RowFormat row = format(layer);
  std::vector<float> values(static_cast<std::size_t>(row.n_columns));
  decode_row(row.codec, image.data(), values, row.tensor_scale);
  return values;
}

StoredChange TableStore::stored(const RowChange& change) const {
  const int layer = change.target.layer;
  return {change.target,
          {change.old_image, decode(layer, change.old_image), change.old_writer},
          {change.new_image, decode(layer, change.new_image), change.new_writer}};
}

// The images in effect. Base rows that are not in memory are read by one request per layer.
Result<void> TableStore::read_images(const Overlay& epoch, std::span<const EditTarget> targets,
                                     std::vector<Image>& images, std::stop_token stop) const {
  images.resize(targets.size());
  std::vector<std::vector<std::int64_t>> rows(base_.size());  // to be read, per layer
  std::vector<std::vector<std::size_t>> places(base_.size());
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const EditTarget& target = targets[i];
    const auto layer = static_cast<std::size_t>(target.layer);
    std::int64_t row = target.id;
    RowEdit edit = epoch.find(target);
    images[i].writer = edit.transaction;
    if (target.scope == EditScope::kNgram && !edit.image) {
      row = row_of(layout_->layers[layer], target.column, static_cast<std::uint64_t>(target.id));
      edit = epoch.row(target.layer, row);
    }
    const RowFormat form = format(target.layer);
    if (edit.image) {
      images[i].bytes.assign(edit.image, edit.image + image_bytes(target.layer));
    } else if (const RowBytes base = base_[layer]->resident(row); base.codes) {
      images[i].bytes.assign(base.codes, base.codes + form.codes_bytes());
      const std::uint8_t* scales = base.scales ? base.scales : base.codes + form.codes_bytes();
      images[i].bytes.insert(images[i].bytes.end(), scales, scales + form.scales_bytes());
    } else {
      rows[layer].push_back(row);
      places[layer].push_back(i);
    }
  }
  for (std::size_t layer = 0; layer < base_.size(); ++layer) {
    if (rows[layer].empty()) continue;
    const std::int64_t n_bytes = image_bytes(static_cast<int>(layer));
    std::vector<std::uint8_t> bytes(rows[layer].size() * static_cast<std::size_t>(n_bytes));
    if (auto read = base_[layer]->read(rows[layer], bytes.data(), stop); !read) return read;
    for (std::size_t i = 0; i < rows[layer].size(); ++i) {
      const auto begin = bytes.begin() + static_cast<std::int64_t>(i) * n_bytes;
      images[places[layer][i]].bytes.assign(begin, begin + n_bytes);
    }
  }
  return {};
}

// The image that the edit stores: computed in fp32, then what the codec makes of it.
Result<void> TableStore::apply(const Edit& edit, const Image& before, const Image& source,
                               std::vector<std::uint8_t>& after) const {
  const RowFormat form = format(edit.target.layer);
  const std::string name = describe(edit.target);
  if (edit.expected_image && *edit.expected_image != before.bytes) {
    return invalid_argument(name + " does not hold the expected image: it was last written by " +
                            (before.writer ? "transaction " + std::to_string(before.writer)
                                           : std::string("no transaction of its own")) +
                            "; read it again and repeat the edit");
  }
  if (edit.operation == EditOperation::kCopy) {
    const RowFormat other = format(edit.source.layer);
    if (other.codec != form.codec || other.tensor_scale != form.tensor_scale) {
      return invalid_argument(name + " cannot be copied from " + describe(edit.source) +
                              ": their codecs differ; set its values instead");
    }
    after = source.bytes;
    return {};
  }
  if (edit.operation == EditOperation::kImage) {
    if (static_cast<std::int64_t>(edit.image.size()) != image_bytes(edit.target.layer)) {
      return invalid_argument(name + ": expected an image of " +
                              std::to_string(image_bytes(edit.target.layer)) + " bytes, got " +
                              std::to_string(edit.image.size()));
    }
    after = edit.image;
    return check_finite(edit.target, after);
  }
  std::vector<float> values = decode(edit.target.layer, before.bytes);
  const bool has_values =
      edit.operation == EditOperation::kSet || edit.operation == EditOperation::kAdd;
  if (has_values && edit.values.size() != values.size()) {
    return invalid_argument(name + " has " + std::to_string(values.size()) + " columns, got " +
                            std::to_string(edit.values.size()) + " values");
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (edit.operation) {
      case EditOperation::kSet:
        values[i] = edit.values[i];
        break;
      case EditOperation::kAdd:
        values[i] += edit.values[i];
        break;
      case EditOperation::kScale:
        values[i] *= edit.factor;
        break;
      default:
        values[i] = 0.0F;
        break;
    }
    if (!std::isfinite(values[i])) {
      return invalid_argument(name + " would get a value that is not finite in column " +
                              std::to_string(i) + ": expected numbers, got " +
                              std::to_string(values[i]));
    }
  }
  auto encoded = encode_row(form.codec, values, form.tensor_scale);
  if (!encoded) return encoded.error();
  after = std::move(*encoded);
  return check_finite(edit.target, after);
}

Result<void> TableStore::check_finite(const EditTarget& target,
                                      const std::vector<std::uint8_t>& image) const {
  for (const float value : decode(target.layer, image)) {
    if (std::isfinite(value)) continue;
    return invalid_argument(describe(target) + " would get a value beyond the range of " +
                            name_of(format(target.layer).codec) + ": use smaller ones");
  }
  return {};
}

Result<Transaction> TableStore::write(const NextEdit& next, Transaction header, bool is_dry,
                                      std::vector<StoredChange>* changes, std::stop_token stop) {
  if (auto author = check_text("author", header.author, kAuthorBytesMax); !author) {
    return author.error();
  }
  if (auto reason = check_text("reason", header.reason, kReasonBytesMax); !reason) {
    return reason.error();
  }
  const std::lock_guard turn(turn_);
  const auto before = overlay();
  std::optional<Writer> writer;
  if (!is_dry) {
    writer.emplace(*this, *before);
    if (auto begun = writer->begin(); !begun) return begun.error();
  }
  std::vector<Edit> batch(kBatchRows);
  std::vector<EditTarget> targets(2 * kBatchRows);
  std::vector<Image> images;
  std::optional<EditTarget> previous;
  RowChange change;
  for (bool more = true; more;) {
    std::size_t n = 0;
    for (; n < kBatchRows; ++n) {
      auto got = next(batch[n]);
      if (!got) return got.error();
      more = *got;
      if (!more) break;
      const bool is_copy = batch[n].operation == EditOperation::kCopy;
      targets[2 * n] = batch[n].target;
      targets[2 * n + 1] = is_copy ? batch[n].source : batch[n].target;
      for (std::size_t i = 2 * n; i < 2 * n + 2; ++i) {
        if (auto checked = check(targets[i]); !checked) return checked.error();
      }
      if (previous && *previous >= batch[n].target) {
        return invalid_argument(
            describe(batch[n].target) +
            (*previous == batch[n].target
                 ? " occurs twice in the transaction: give it one edit, or use two transactions"
                 : " follows " + describe(*previous) + ": an import needs ascending targets"));
      }
      previous = batch[n].target;
    }
    if (stop.stop_requested()) return cancelled("the import was stopped: nothing was stored");
    if (auto read = read_images(*before, std::span(targets).first(2 * n), images, stop); !read) {
      return read.error();
    }
    for (std::size_t i = 0; i < n; ++i) {
      if (auto done = apply(batch[i], images[2 * i], images[2 * i + 1], change.new_image); !done) {
        return done.error();
      }
      change.target = batch[i].target;
      change.old_image.swap(images[2 * i].bytes);
      change.old_writer = images[2 * i].writer;
      change.new_writer = log_ ? log_->last() + 1 : 1;
      if (changes) changes->push_back(stored(change));
      if (is_dry) continue;
      if (auto added = writer->add(change); !added) return added.error();
    }
  }
  if (!previous) return invalid_argument("a transaction needs at least one edit, got none");
  if (is_dry) {
    header.n_rows = static_cast<std::int64_t>(changes->size());
    return header;
  }
  return writer->finish(std::move(header));
}

namespace {

// Edits in order of their targets, one after the other.
Result<TableStore::NextEdit> in_order(std::vector<Edit>& edits) {
  if (edits.size() > TableStore::kEditsMax) {
    return limit_exceeded("a transaction takes at most " + std::to_string(TableStore::kEditsMax) +
                          " edits, got " + std::to_string(edits.size()) + ": import them");
  }
  std::ranges::stable_sort(edits, {}, &Edit::target);
  return TableStore::NextEdit([&edits, i = std::size_t{0}](Edit& edit) mutable -> Result<bool> {
    if (i == edits.size()) return false;
    edit = std::move(edits[i++]);
    return true;
  });
}

}  // namespace

Result<StoredTransaction> TableStore::commit(std::vector<Edit> edits, const std::string& author,
                                             const std::string& reason) {
  auto next = in_order(edits);
  if (!next) return next.error();
  StoredTransaction result;
  auto written = write(*next, {.author = author, .reason = reason}, false, &result.changes, {});
  if (!written) return written.error();
  result.transaction = std::move(*written);
  return result;
}

Result<StoredTransaction> TableStore::dry_run(std::vector<Edit> edits) {
  auto next = in_order(edits);
  if (!next) return next.error();
  StoredTransaction result;
  auto written = write(*next, {}, true, &result.changes, {});
  if (!written) return written.error();
  result.transaction = std::move(*written);
  return result;
}

Result<StoredTransaction> TableStore::first_dry_run(const EngramLayout& layout,
                                                    std::vector<RowSource*> base,
                                                    std::vector<Edit> edits) {
  TableStore store(layout, std::move(base));
  std::vector<std::int64_t> bytes;
  for (const RowSource* rows : store.base_) bytes.push_back(rows->format().row_bytes());
  store.publish(std::make_shared<const Overlay>(bytes));
  return store.dry_run(std::move(edits));
}

Result<Transaction> TableStore::import(const NextEdit& next, const std::string& author,
                                       const std::string& reason, std::stop_token stop) {
  return write(next, {.author = author, .reason = reason}, false, nullptr, std::move(stop));
}

// A transaction of the changes that for_each gives, backwards: old image and writer become new.
Result<Transaction> TableStore::undo(
    Transaction header, const std::function<Result<void>(const EditLog::Visit&)>& for_each) {
  if (auto author = check_text("author", header.author, kAuthorBytesMax); !author) {
    return author.error();
  }
  if (auto reason = check_text("reason", header.reason, kReasonBytesMax); !reason) {
    return reason.error();
  }
  const auto before = overlay();
  Writer writer(*this, *before);
  if (auto begun = writer.begin(); !begun) return begun.error();
  std::vector<Image> images;
  bool is_empty = true;
  auto visited = for_each([&](const RowChange& done) -> Result<void> {
    RowChange change{done.target, done.new_image, done.old_image, done.new_writer, done.old_writer};
    if (done.target.scope == EditScope::kNgram && done.old_writer == 0) {
      // The N-gram falls back to its row, which may have changed since.
      const EngramLayer& layer = layout_->layers[static_cast<std::size_t>(done.target.layer)];
      const EditTarget row =
          row_target(done.target.layer,
                     row_of(layer, done.target.column, static_cast<std::uint64_t>(done.target.id)));
      if (auto read = read_images(*before, std::span(&row, 1), images, {}); !read) return read;
      change.new_image = images[0].bytes;
    }
    is_empty = false;
    return writer.add(change);
  });
  if (!visited) return visited.error();
  if (is_empty) {
    return invalid_argument("nothing to undo: the tables are as after transaction " +
                            std::to_string(header.subject) + " already");
  }
  return writer.finish(std::move(header));
}

Result<Transaction> TableStore::rollback(std::int64_t number, const std::string& author,
                                         const std::string& reason) {
  const std::lock_guard turn(turn_);
  auto undone = log_->transaction(number);
  if (!undone) return undone.error();
  if (undone->kind != TransactionKind::kEdit) {
    return invalid_argument("transaction " + std::to_string(number) +
                            " is itself a rollback or restore: restore transaction " +
                            std::to_string(number - 1) + " to undo it and all later ones");
  }
  const auto before = overlay();
  const auto for_each = [&](const EditLog::Visit& visit) {
    return log_->for_each_change(number, [&](const RowChange& change) -> Result<void> {
      const std::int64_t writer = before->find(change.target).transaction;
      if (writer == number) return visit(change);
      const std::string name = "transaction " + std::to_string(number);
      if (writer < number) {
        return invalid_argument(name + " was undone already: " + describe(change.target) +
                                " no longer shows it");
      }
      return invalid_argument(name + " cannot be rolled back: transaction " +
                              std::to_string(writer) + " wrote " + describe(change.target) +
                              " later; roll that one back first, or restore transaction " +
                              std::to_string(number - 1));
    });
  };
  return undo(
      {.kind = TransactionKind::kRollback, .subject = number, .author = author, .reason = reason},
      for_each);
}

Result<Transaction> TableStore::restore(std::int64_t number, const std::string& author,
                                        const std::string& reason) {
  const std::lock_guard turn(turn_);
  if (auto checked = check_number(number); !checked) return checked.error();
  const std::int64_t last = log_->last();
  return undo(
      {.kind = TransactionKind::kRestore, .subject = number, .author = author, .reason = reason},
      [&](const EditLog::Visit& visit) { return log_->for_each_difference(number, last, visit); });
}

Result<Transaction> TableStore::move_on(const MakeSuccessor& make, const std::string& author) {
  if (auto checked = check_text("author", author, kAuthorBytesMax); !checked) {
    return checked.error();
  }
  const std::lock_guard turn(turn_);
  const auto successor = make(current());
  if (!successor) return successor.error();
  return log_->move_on(*successor, author);
}

Result<void> TableStore::check_number(std::int64_t number) const {
  if (number >= 0 && number <= log_->last()) return {};
  return not_found("transaction " + std::to_string(number) +
                   " does not exist: expected 0 (the base) to " + std::to_string(log_->last()));
}

Result<StoredRow> TableStore::get(const EditTarget& target) {
  const std::lock_guard turn(turn_);
  if (auto checked = check(target); !checked) return checked.error();
  std::vector<Image> images;
  if (auto read = read_images(*overlay(), std::span(&target, 1), images, {}); !read) {
    return read.error();
  }
  return StoredRow{images[0].bytes, decode(target.layer, images[0].bytes), images[0].writer};
}

Result<Transaction> TableStore::transaction(std::int64_t number) {
  const std::lock_guard turn(turn_);
  return log_->transaction(number);
}

Result<std::vector<Transaction>> TableStore::history(const HistoryFilter& filter,
                                                     std::int64_t limit) {
  const std::lock_guard turn(turn_);
  if (auto checked = check_limit(limit); !checked) return checked.error();
  return log_->history(filter, limit);
}

namespace {

// Ends a visit early; never leaves this file.
Error enough() {
  return cancelled("enough");
}

}  // namespace

Result<std::vector<StoredChange>> TableStore::changes(std::int64_t number, std::int64_t limit) {
  const std::lock_guard turn(turn_);
  if (auto checked = check_limit(limit); !checked) return checked.error();
  if (auto found = log_->transaction(number); !found) return found.error();
  std::vector<StoredChange> list;
  auto visited = log_->for_each_change(number, [&](const RowChange& change) -> Result<void> {
    if (static_cast<std::int64_t>(list.size()) == limit) return enough();
    list.push_back(stored(change));
    return {};
  });
  if (!visited && visited.error().kind != ErrorKind::kCancelled) return visited.error();
  return list;
}

Result<std::vector<StoredChange>> TableStore::diff(std::int64_t from, std::int64_t to,
                                                   std::int64_t limit) {
  const std::lock_guard turn(turn_);
  if (auto checked = check_limit(limit); !checked) return checked.error();
  for (const std::int64_t number : {from, to}) {
    if (auto checked = check_number(number); !checked) return checked.error();
  }
  if (from > to) {
    return invalid_argument("diff goes from the older to the newer transaction, got " +
                            std::to_string(from) + " and " + std::to_string(to) + ": swap them");
  }
  std::vector<StoredChange> list;
  auto visited = log_->for_each_difference(from, to, [&](const RowChange& change) -> Result<void> {
    if (static_cast<std::int64_t>(list.size()) == limit) return enough();
    list.push_back(stored(change));
    return {};
  });
  if (!visited && visited.error().kind != ErrorKind::kCancelled) return visited.error();
  return list;
}

Result<Snapshot> TableStore::snapshot(const std::string& name) {
  const std::lock_guard turn(turn_);
  if (name.empty()) return invalid_argument("a snapshot needs a name");
  if (auto checked = check_text("snapshot name", name, kSnapshotNameBytesMax); !checked) {
    return checked.error();
  }
  return log_->snapshot(name);
}

Result<std::vector<Snapshot>> TableStore::snapshots() {
  const std::lock_guard turn(turn_);
  return log_->snapshots();
}

}  // namespace engramd::engine
