// EditLog: the durable history of edits, one SQLite file beside the base tables. It owns the only
// connection to that file and holds its lock until it is destroyed: SQLite 3.40.1 (Debian 12) can
// corrupt a WAL that two connections write or checkpoint (fixed in 3.51.3), so there is never a
// second one, in this process or another.
// A transaction is begin, append for every changed target in ascending order, commit; it is durable
// when commit() returns. Each carries SHA-256 over its parent's and its own contents; open() reads
// and checks the whole chain, so damage is refused at the door. File format: TABLES.md.
// Threads: one at a time (table_store's mutex). Not here: images and codecs (table_store), the
// index that readers use (overlay).
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/result.h"

namespace engramd::engine {

enum class EditScope { kRow = 0, kNgram = 1 };

struct EditTarget {
  int layer = 0;  // index into EngramLayout::layers
  EditScope scope = EditScope::kRow;
  std::int32_t column = -1;  // kNgram: order-major, then head; kRow: -1
  std::int64_t id = 0;       // kRow: row index; kNgram: the 64 bits of NgramKey::mix

  auto operator<=>(const EditTarget&) const = default;
};

// What a transaction did to one target. Images are the stored bytes: codes, then scales.
struct RowChange {
  EditTarget target;
  std::vector<std::uint8_t> old_image;  // in effect before
  std::vector<std::uint8_t> new_image;  // in effect after
  std::int64_t old_writer = 0;          // the transaction whose image it is; 0: the target itself
  std::int64_t new_writer = 0;          // is not edited (base row; for an N-gram, its row)
};

// kMove changes no row and is the last one of a file: its tables moved on to another (Successor).
enum class TransactionKind { kEdit = 0, kRollback = 1, kRestore = 2, kMove = 3 };

struct Transaction {
  std::int64_t number = 0;  // 1, 2, 3 ...
  std::int64_t parent = 0;  // number - 1: history is a line
  TransactionKind kind = TransactionKind::kEdit;
  // kRollback: the one undone; kRestore: the one returned to; kMove: the successor's generation
  std::int64_t subject = 0;
  std::int64_t created_unix_ms = 0;
  std::string author = {};
  std::string reason = {};
  std::int64_t n_rows = 0;
  std::string sha256 = {};  // hex; of the parent's and of everything in this one
};

struct Snapshot {
  std::string name;
  std::int64_t transaction = 0;
  std::int64_t created_unix_ms = 0;
};

// The row file, with its edits beside it, that took over what was in effect.
struct Successor {
  std::string path;  // absolute
  std::int64_t generation = 0;
  std::string content;  // TableIdentity::base_content: another file under that name is not it
};

struct HistoryFilter {
  std::optional<std::int64_t> before;  // transactions with a smaller number
  std::optional<std::string> author;
  std::optional<EditTarget> target;  // those that changed it
};

class EditLog {
 public:
  using Visit = std::function<Result<void>(const RowChange&)>;

  // Makes the file when it is absent. identity: one line that says which tables the edits belong
  // to; a file with another is refused. replay: gets every change in order of transactions.
  // Refused: files of others, newer formats, damage, a file in use.
  static Result<std::unique_ptr<EditLog>> open(const std::string& path, const std::string& identity,
                                               const std::string& vfs, const Visit& replay);
  ~EditLog();
  // Where the tables of an existing file moved on to, without reading its history.
  static Result<std::optional<Successor>> successor_of(const std::string& path,
                                                       const std::string& identity,
                                                       const std::string& vfs);

  std::int64_t last() const;  // number of the newest transaction; 0: none

  Result<void> begin();  // of number last() + 1
  Result<void> append(const RowChange& change);
  // header: kind, subject, author, reason. Fills in the rest.
  Result<Transaction> commit(Transaction header);
  void abandon();  // what was begun; does nothing when nothing was
  // The last transaction: nothing is stored here any more.
  Result<Transaction> move_on(const Successor& successor, const std::string& author);

  Result<Transaction> transaction(std::int64_t number);
  Result<std::vector<Transaction>> history(const HistoryFilter& filter, std::int64_t limit);
  Result<void> for_each_change(std::int64_t transaction, const Visit& visit);
  // Every target that transactions (from, to] changed: image and writer at `from` (old) and at
  // `to` (new), ascending. Keys are held in memory (about 40 B each), images are not.
  Result<void> for_each_difference(std::int64_t from, std::int64_t to, const Visit& visit);

  Result<Snapshot> snapshot(const std::string& name);
  Result<std::vector<Snapshot>> snapshots();

 private:
  struct Impl;
  explicit EditLog(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace engramd::engine
