// TableStore: the one writer of edits to the Engram tables of a model. It turns requested edits
// into full row images in the base's codec, makes them durable (edit_log) and then shows them by
// one pointer swap (overlay): after commit() returns the edit survives power loss and current()
// contains it; an Epoch taken earlier does not.
// Every edit of a transaction sees the tables as they were before the transaction. A target may
// occur once in it. What is reported is what was stored. Nothing is stored when one edit is
// refused: NaN, a result that the codec cannot hold as a finite number, an expected image that is
// no longer there.
// Threads: current() from any thread at any time. Everything else from any thread; calls take
// turns. read() of the sources is called in that turn: give the store sources of its own.
// Not here: what an N-gram's text addresses (addresser), export and fold, the forward pass.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/engram/edit_log.h"
#include "engine/engram/epoch.h"
#include "engine/engram/layout.h"
#include "engine/engram/overlay.h"
#include "engine/engram/row_source.h"

namespace engramd::engine {

EditTarget row_target(int layer, std::int64_t row);
EditTarget ngram_target(int layer, int column, std::uint64_t mix);

enum class EditOperation { kSet, kAdd, kScale, kZero, kCopy, kImage };

struct Edit {
  EditTarget target;
  EditOperation operation = EditOperation::kSet;
  std::vector<float> values;        // kSet, kAdd: [head_dim]
  float factor = 1.0F;              // kScale
  std::vector<std::uint8_t> image;  // kImage: the stored bytes themselves
  EditTarget source;                // kCopy: the image in effect there, byte by byte
  std::optional<std::vector<std::uint8_t>> expected_image;  // refused unless in effect now
};

// Which tables the edits belong to; a file made for others is refused.
struct TableIdentity {
  std::string layout_hash;
  std::string token_map_hash;
  std::int64_t base_generation = 0;
  std::string base_content = {};  // a checksum: another base of the same layout is not this one
};

struct StoredRow {
  std::vector<std::uint8_t> image;
  std::vector<float> values;  // [head_dim], decoded from the image
  std::int64_t writer = 0;    // as in RowChange
};

struct StoredChange {
  EditTarget target;
  StoredRow before;
  StoredRow after;
};

struct StoredTransaction {
  Transaction transaction;  // number 0: a dry run
  std::vector<StoredChange> changes;
};

class TableStore {
 public:
  static constexpr std::size_t kEditsMax = 65536;  // of commit(); import() has no limit
  static constexpr std::size_t kAuthorBytesMax = 256;
  static constexpr std::size_t kReasonBytesMax = 4096;
  static constexpr std::size_t kSnapshotNameBytesMax = 128;
  static constexpr std::int64_t kListMax = 10000;

  // path: the SQLite file, made when absent. base: one per layer of `layout`, not owned; both
  // outlive the store. vfs: for tests; empty: the system's files.
  static Result<std::unique_ptr<TableStore>> open(const std::string& path,
                                                  const TableIdentity& identity,
                                                  const EngramLayout& layout,
                                                  std::vector<RowSource*> base,
                                                  const std::string& vfs = {});

  // Where the tables that an existing file was made for moved on to; a file of others is refused.
  // format: of every layer's rows.
  static Result<std::optional<Successor>> successor_of(const std::string& path,
                                                       const TableIdentity& identity,
                                                       const EngramLayout& layout,
                                                       const RowFormat& format);

  EpochPointer current() const { return overlay(); }
  std::shared_ptr<const Overlay> overlay() const;  // the same; for export and fold

  // The image in effect: the target's own edit, else (N-gram) its row's, else the base row.
  Result<StoredRow> get(const EditTarget& target);

  Result<StoredTransaction> commit(std::vector<Edit> edits, const std::string& author,
                                   const std::string& reason);
  Result<StoredTransaction> dry_run(std::vector<Edit> edits);
  // The same of the first edit of tables that have no file yet, without making one.
  static Result<StoredTransaction> first_dry_run(const EngramLayout& layout,
                                                 std::vector<RowSource*> base,
                                                 std::vector<Edit> edits);
  // One transaction of any size: `next` fills in the next edit (false: no more), targets strictly
  // ascending. Memory: the edits themselves in the overlay, and a bounded rest.
  using NextEdit = std::function<Result<bool>(Edit&)>;
  Result<Transaction> import(const NextEdit& next, const std::string& author,
                             const std::string& reason, std::stop_token stop = {});

  // Undoes one transaction by a new one: images and writers as before it. Refused when a target no
  // longer shows that transaction's image (a later one wrote it, or it was undone already).
  Result<Transaction> rollback(std::int64_t number, const std::string& author,
                               const std::string& reason);
  // A new transaction that returns every target to its state after transaction `number` (0: the
  // base): undoes all later ones, whatever they touched, rollbacks included.
  Result<Transaction> restore(std::int64_t number, const std::string& author,
                              const std::string& reason);

  // Ends this store in favour of what `make` writes from the epoch that it is given; edits wait
  // meanwhile and are refused afterwards. When `make` or the last write fails, all is as before.
  using MakeSuccessor = std::function<Result<Successor>(const EpochPointer& epoch)>;
  Result<Transaction> move_on(const MakeSuccessor& make, const std::string& author);

  Result<Transaction> transaction(std::int64_t number);
  Result<std::vector<Transaction>> history(const HistoryFilter& filter, std::int64_t limit);
  Result<std::vector<StoredChange>> changes(std::int64_t number, std::int64_t limit);
  // Targets whose state differs after `from` and after `to`, from <= to.
  Result<std::vector<StoredChange>> diff(std::int64_t from, std::int64_t to, std::int64_t limit);
  Result<Snapshot> snapshot(const std::string& name);  // names the newest transaction, for good
  Result<std::vector<Snapshot>> snapshots();

 private:
  struct Image {
    std::vector<std::uint8_t> bytes;
    std::int64_t writer = 0;
  };
  class Writer;

  TableStore(const EngramLayout& layout, std::vector<RowSource*> base);
  RowFormat format(int layer) const { return base_[static_cast<std::size_t>(layer)]->format(); }
  std::int64_t image_bytes(int layer) const;
  Result<void> check(const EditTarget& target) const;
  Result<void> read_images(const Overlay& epoch, std::span<const EditTarget> targets,
                           std::vector<Image>& images, std::stop_token stop) const;
  Result<void> apply(const Edit& edit, const Image& before, const Image& source,
                     std::vector<std::uint8_t>& after) const;
  Result<Transaction> write(const NextEdit& next, Transaction header, bool is_dry,
                            std::vector<StoredChange>* changes, std::stop_token stop);
  Result<Transaction> undo(Transaction header,
                           const std::function<Result<void>(const EditLog::Visit&)>& for_each);
  Result<void> check_number(std::int64_t number) const;
  Result<void> check_finite(const EditTarget& target, const std::vector<std::uint8_t>& image) const;
  std::vector<float> decode(int layer, const std::vector<std::uint8_t>& image) const;
  StoredChange stored(const RowChange& change) const;
  void publish(std::shared_ptr<const Overlay> next);

  const EngramLayout* layout_;
  std::vector<RowSource*> base_;
  std::mutex turn_;               // guards log_ and reads of base_: one writer, one transaction
  std::unique_ptr<EditLog> log_;  // nullptr: in first_dry_run() only
  mutable std::mutex swap_;       // guards current_ for the time of one pointer copy
  std::shared_ptr<const Overlay> current_;
};

}  // namespace engramd::engine
