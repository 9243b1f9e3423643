#include "engine/engram/edit_log.h"

#include <array>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "config/assert.h"
#include "engine/engram/sha256.h"
#include "engine/engram/sqlite.h"

namespace engramd::engine {
namespace {

constexpr std::int64_t kApplicationId = 0x454E4752;  // "ENGR", in the SQLite header
constexpr std::int64_t kFormat = 1;                  // user_version in the SQLite header
// Two images of at most 65,536 columns of fp32 and the rest of a row stay below this.
constexpr int kRowBytesMax = 1 << 20;
// SQLite's own default: the WAL is copied back when a commit leaves this many 4 KiB pages in it.
constexpr int kCheckpointPages = 1000;
constexpr int kTruncatePages = 16384;  // 64 MiB: a WAL beyond this (bulk import) is cut to nothing

// change: clustered by transaction, so that commits append; the key also orders and deduplicates.
constexpr std::array kSchema = {
    "CREATE TABLE identity(text TEXT NOT NULL) STRICT",
    "CREATE TABLE tx(id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, kind INTEGER NOT NULL, "
    "subject INTEGER NOT NULL, created_unix_ms INTEGER NOT NULL, author TEXT NOT NULL, "
    "reason TEXT NOT NULL, n_rows INTEGER NOT NULL, sha256 TEXT NOT NULL) STRICT",
    "CREATE TABLE change(tx INTEGER NOT NULL, layer INTEGER NOT NULL, scope INTEGER NOT NULL, "
    "col INTEGER NOT NULL, id INTEGER NOT NULL, old_writer INTEGER NOT NULL, "
    "new_writer INTEGER NOT NULL, old_image BLOB NOT NULL, new_image BLOB NOT NULL, "
    "PRIMARY KEY(tx, layer, scope, col, id)) STRICT, WITHOUT ROWID",
    "CREATE TABLE snapshot(name TEXT PRIMARY KEY, tx INTEGER NOT NULL, "
    "created_unix_ms INTEGER NOT NULL, sha256 TEXT NOT NULL) STRICT, WITHOUT ROWID"};

constexpr const char* kChangeColumns =
    "layer, scope, col, id, old_writer, new_writer, old_image, new_image";
constexpr const char* kTransactionColumns =
    "id, parent, kind, subject, created_unix_ms, author, reason, n_rows, sha256";

std::int64_t now_unix_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

// SHA-256 over integers (8 bytes, little endian) and byte strings (their length first).
class ContentHash {
 public:
  void restart() { hash_.restart(); }
  void add(std::int64_t value) {
    std::array<std::uint8_t, 8> bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::uint8_t>(static_cast<std::uint64_t>(value) >> (8 * i));
    }
    hash_.add(bytes);
  }
  void add(std::span<const std::uint8_t> bytes) {
    add(static_cast<std::int64_t>(bytes.size()));
    hash_.add(bytes);
  }
  void add(const std::string& text) {
    add(std::span(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
  }
  void add(const RowChange& change) {
    add(change.target.layer);
    add(static_cast<std::int64_t>(change.target.scope));
    add(change.target.column);
    add(change.target.id);
    add(change.old_writer);
    add(change.new_writer);
    add(std::span(change.old_image));
    add(std::span(change.new_image));
  }
  std::string hex() { return hash_.hex(); }

 private:
  Sha256 hash_;
};

// The rows of the transaction were added before, in order.
std::string finish_hash(ContentHash& hash, const Transaction& tx, const std::string& parent) {
  hash.add(parent);
  for (const std::int64_t value : {tx.number, tx.parent, static_cast<std::int64_t>(tx.kind),
                                   tx.subject, tx.created_unix_ms, tx.n_rows}) {
    hash.add(value);
  }
  hash.add(tx.author);
  hash.add(tx.reason);
  return hash.hex();
}

std::string snapshot_hash(const Snapshot& snapshot, const std::string& transaction) {
  ContentHash hash;
  hash.add(transaction);
  hash.add(snapshot.name);
  hash.add(snapshot.transaction);
  hash.add(snapshot.created_unix_ms);
  return hash.hex();
}

void read_change(const SqliteStatement& row, int column, RowChange& change) {
  change.target = {static_cast<int>(row.integer(column)),
                   row.integer(column + 1) == 1 ? EditScope::kNgram : EditScope::kRow,
                   static_cast<std::int32_t>(row.integer(column + 2)), row.integer(column + 3)};
  change.old_writer = row.integer(column + 4);
  change.new_writer = row.integer(column + 5);
  row.blob(column + 6, change.old_image);
  row.blob(column + 7, change.new_image);
}

Transaction read_transaction(const SqliteStatement& row) {
  return {row.integer(0), row.integer(1), static_cast<TransactionKind>(row.integer(2)),
          row.integer(3), row.integer(4), row.text(5),
          row.text(6),    row.integer(7), row.text(8)};
}

// A move's `reason`: content and path, apart by a line break, which content never holds.
std::string reason_of(const Successor& successor) {
  return successor.content + "\n" + successor.path;
}

Successor successor_in(const Transaction& move) {
  const std::size_t end = move.reason.find('\n');
  const std::string path = end == std::string::npos ? std::string() : move.reason.substr(end + 1);
  return {path, move.subject, move.reason.substr(0, end)};
}

void bind_target(SqliteStatement& statement, int parameter, const EditTarget& target) {
  statement.bind(parameter, target.layer);
  statement.bind(parameter + 1, static_cast<std::int64_t>(target.scope));
  statement.bind(parameter + 2, target.column);
  statement.bind(parameter + 3, target.id);
}

// Before anything is read. Without shared memory and with one connection the WAL's index lives on
// the heap and the lock on the file is held until the connection closes.
Result<void> prepare_connection(SqliteConnection& db) {
  sqlite3_db_config(db.get(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);       // untrusted file:
  sqlite3_db_config(db.get(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);  // no code in schemas
  sqlite3_db_config(db.get(), SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db.get(), SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_limit(db.get(), SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(db.get(), SQLITE_LIMIT_LENGTH, kRowBytesMax);
  return db.execute(
      "PRAGMA locking_mode=EXCLUSIVE;"
      "PRAGMA mmap_size=0;"        // a mapped file that is cut raises SIGBUS; see also the header
      "PRAGMA temp_store=MEMORY;"  // no files outside the table's folder
      "PRAGMA cache_size=-16384;"  // KiB; bounds a bulk import: what does not fit spills to the WAL
      "PRAGMA cell_size_check=ON;");
}

// The file's tables must be ours to the letter: extra triggers or views are somebody else's code.
Result<bool> has_schema(SqliteConnection& db) {
  auto application = db.text_of("PRAGMA application_id");
  if (!application) return application.error();
  auto version = db.text_of("PRAGMA user_version");
  if (!version) return version.error();
  auto found = db.text_of(
      "SELECT coalesce(group_concat(sql, ';'), '') FROM (SELECT sql FROM "
      "sqlite_schema WHERE sql IS NOT NULL ORDER BY rowid)");
  if (!found) return found.error();
  if (*application == "0" && *version == "0" && found->empty()) return false;
  const std::string file = "edit log " + db.path();
  if (*application != std::to_string(kApplicationId)) {
    return invalid_argument(file + " belongs to another program: expected SQLite application id " +
                            std::to_string(kApplicationId) + ", got " + *application +
                            "; name another file");
  }
  if (*version != std::to_string(kFormat)) {
    return invalid_argument(file + " has format " + *version + ", this engramd reads format " +
                            std::to_string(kFormat) + ": use the engramd that wrote it");
  }
  std::string expected;
  for (const char* sql : kSchema) expected += (expected.empty() ? "" : ";") + std::string(sql);
  if (*found != expected) {
    return invalid_argument(file + " has other tables than format " + std::to_string(kFormat) +
                            ": it was changed by another program; restore it from a copy");
  }
  return true;
}

// Everything in one transaction: after a crash the file is empty or complete.
Result<void> create_schema(SqliteConnection& db, const std::string& identity) {
  std::string sql = "BEGIN IMMEDIATE;";
  for (const char* table : kSchema) sql += std::string(table) + ";";
  sql += "PRAGMA application_id=" + std::to_string(kApplicationId) +
         ";PRAGMA user_version=" + std::to_string(kFormat) + ";";
  if (auto made = db.execute(sql); !made) return made;
  auto insert = SqliteStatement::prepare(db, "INSERT INTO identity VALUES(?1)");
  if (!insert) return insert.error();
  insert->bind(1, identity);
  if (auto run = insert->run(); !run) return run;
  return db.execute("COMMIT");
}

Result<void> check_identity(SqliteConnection& db, const std::string& identity) {
  auto found = db.text_of("SELECT text FROM identity");
  if (!found) return found.error();
  if (*found == identity) return {};
  return invalid_argument("edit log " + db.path() + " belongs to other tables: expected " +
                          identity + ", got " + *found +
                          "; name the file that belongs to this model");
}

}  // namespace

struct EditLog::Impl {
  explicit Impl(SqliteConnection connection) : db(std::move(connection)) {}

  SqliteConnection db;  // statements point to it: an Impl does not move
  std::optional<SqliteStatement> insert_change, insert_transaction;
  std::int64_t last = 0;
  std::string last_sha256;
  ContentHash hash;             // of the transaction under way
  std::int64_t n_rows = 0;      // of the transaction under way
  std::optional<Error> failed;  // the disk refused a write: nothing more is written
  std::optional<Successor> successor;
  int wal_pages = 0;

  Result<void> verify(const Visit& replay);
  Result<void> verify_snapshots();
  Error damaged(const std::string& what) const {
    return invalid_argument("edit log " + db.path() + " is damaged: " + what +
                            "; restore it, with its -wal file, from a copy");
  }
  // After a failed write or sync Linux may call the lost pages clean, and a retry would succeed
  // with data missing: only a new process, which recovers from the file, writes again. A full disk
  // is different: SQLite rolled back and nothing was lost.
  Error refuse(Error error) {
    const int code = sqlite3_extended_errcode(db.get()) & 0xFF;
    if (code != SQLITE_FULL && code != SQLITE_CONSTRAINT) failed = error;
    return error;
  }
  void checkpoint();
};

// Copies the WAL back between transactions; done here and not by SQLite's own hook because that
// one hides errors. The commit before it is durable either way.
void EditLog::Impl::checkpoint() {
  if (wal_pages < kCheckpointPages) return;
  const int mode =
      wal_pages >= kTruncatePages ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE;
  const int code = sqlite3_wal_checkpoint_v2(db.get(), "main", mode, nullptr, nullptr);
  if (code != SQLITE_OK && (code & 0xFF) != SQLITE_FULL) failed = db.error(code, "checkpointed");
  if (code == SQLITE_OK) wal_pages = 0;
}

EditLog::EditLog(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EditLog::~EditLog() = default;

Result<std::unique_ptr<EditLog>> EditLog::open(const std::string& path, const std::string& identity,
                                               const std::string& vfs, const Visit& replay) {
  auto connection = SqliteConnection::open(path, vfs);
  if (!connection) return connection.error();
  auto impl = std::make_unique<Impl>(std::move(*connection));
  SqliteConnection& db = impl->db;
  if (auto prepared = prepare_connection(db); !prepared) return prepared.error();
  auto exists = has_schema(db);
  if (!exists) return exists.error();
  auto mode = db.text_of("PRAGMA journal_mode=WAL");
  if (!mode) return mode.error();
  if (*mode != "wal") {
    return environment_error("edit log " + path + " could not use a write-ahead log (got journal " +
                             "mode " + *mode + "): put the table on a local file system");
  }
  // FULL: COMMIT returns after fdatasync of the WAL. NORMAL would lose acknowledged edits.
  if (auto full = db.execute("PRAGMA synchronous=FULL"); !full) return full.error();
  sqlite3_wal_hook(
      db.get(),
      [](void* pages, sqlite3*, const char*, int n) {
        *static_cast<int*>(pages) = n;
        return SQLITE_OK;
      },
      &impl->wal_pages);
  if (!*exists) {
    if (auto made = create_schema(db, identity); !made) return made.error();
  }
  if (auto ours = check_identity(db, identity); !ours) return ours.error();
  if (auto verified = impl->verify(replay); !verified) return verified.error();
  if (auto verified = impl->verify_snapshots(); !verified) return verified.error();
  auto change = SqliteStatement::prepare(
      db,
      "INSERT INTO change(tx, layer, scope, col, id, old_writer, new_writer, old_image, "
      "new_image) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
  if (!change) return change.error();
  auto transaction =
      SqliteStatement::prepare(db, "INSERT INTO tx VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)");
  if (!transaction) return transaction.error();
  impl->insert_change = std::move(*change);
  impl->insert_transaction = std::move(*transaction);
  return std::unique_ptr<EditLog>(new EditLog(std::move(impl)));
}

Result<std::optional<Successor>> EditLog::successor_of(const std::string& path,
                                                       const std::string& identity,
                                                       const std::string& vfs) {
  auto db = SqliteConnection::open(path, vfs);
  if (!db) return db.error();
  if (auto prepared = prepare_connection(*db); !prepared) return prepared.error();
  auto exists = has_schema(*db);
  if (!exists) return exists.error();
  if (!*exists) return std::optional<Successor>();
  if (auto ours = check_identity(*db, identity); !ours) return ours.error();
  auto last = SqliteStatement::prepare(
      *db,
      (std::string("SELECT ") + kTransactionColumns + " FROM tx ORDER BY id DESC LIMIT 1").c_str());
  if (!last) return last.error();
  auto row = last->step();
  if (!row) return row.error();
  if (!*row) return std::optional<Successor>();
  const Transaction tx = read_transaction(*last);
  if (tx.kind != TransactionKind::kMove) return std::optional<Successor>();
  return std::optional(successor_in(tx));
}

// Reads everything once: each transaction's rows must be there and give its hash.
Result<void> EditLog::Impl::verify(const Visit& replay) {
  auto transactions = SqliteStatement::prepare(
      db, (std::string("SELECT ") + kTransactionColumns + " FROM tx ORDER BY id").c_str());
  if (!transactions) return transactions.error();
  auto changes = SqliteStatement::prepare(db, (std::string("SELECT tx, ") + kChangeColumns +
                                               " FROM change ORDER BY tx, layer, scope, col, id")
                                                  .c_str());
  if (!changes) return changes.error();
  auto has_change = changes->step();
  auto has_transaction = transactions->step();
  RowChange change;
  for (; has_transaction && *has_transaction; has_transaction = transactions->step()) {
    const Transaction tx = read_transaction(*transactions);
    const std::string name = "transaction " + std::to_string(tx.number);
    if (tx.number != last + 1) return damaged(name + " follows " + std::to_string(last));
    if (successor) return damaged(name + " follows the one that ended the file");
    ContentHash content;
    std::int64_t n = 0;
    for (; has_change && *has_change && changes->integer(0) == tx.number;
         has_change = changes->step(), ++n) {
      read_change(*changes, 1, change);
      content.add(change);
      if (auto visited = replay(change); !visited) return visited.error();
    }
    if (!has_change) return has_change.error();
    if (n != tx.n_rows) {
      return damaged(name + " has " + std::to_string(n) + " rows, expected " +
                     std::to_string(tx.n_rows));
    }
    if (finish_hash(content, tx, last_sha256) != tx.sha256) {
      return damaged(name + " does not match its SHA-256");
    }
    if (tx.kind == TransactionKind::kMove) successor = successor_in(tx);
    last = tx.number;
    last_sha256 = tx.sha256;
  }
  if (!has_transaction) return has_transaction.error();
  if (!has_change) return has_change.error();
  if (*has_change)
    return damaged("rows of transaction " + std::to_string(changes->integer(0)) +
                   ", which does not exist");
  return {};
}

Result<void> EditLog::Impl::verify_snapshots() {
  auto rows = SqliteStatement::prepare(
      db,
      "SELECT s.name, s.tx, s.created_unix_ms, s.sha256, coalesce(t.sha256, '') "
      "FROM snapshot s LEFT JOIN tx t ON t.id = s.tx ORDER BY s.name");
  if (!rows) return rows.error();
  auto row = rows->step();
  for (; row && *row; row = rows->step()) {
    const Snapshot snapshot{rows->text(0), rows->integer(1), rows->integer(2)};
    if (snapshot_hash(snapshot, rows->text(4)) != rows->text(3)) {
      return damaged("snapshot '" + snapshot.name + "' does not match its SHA-256");
    }
  }
  if (!row) return row.error();
  return {};
}

std::int64_t EditLog::last() const {
  return impl_->last;
}

Result<void> EditLog::begin() {
  if (impl_->failed) {
    return unavailable("edits are closed since the disk refused one: " + impl_->failed->message +
                       "; then restart engramd");
  }
  if (impl_->successor) {
    return unavailable("edit log " + impl_->db.path() + " is closed: its tables moved on to " +
                       impl_->successor->path + "; edit those");
  }
  impl_->hash.restart();
  impl_->n_rows = 0;
  if (auto begun = impl_->db.execute("BEGIN IMMEDIATE"); !begun) {
    return impl_->refuse(begun.error());
  }
  return {};
}

Result<void> EditLog::append(const RowChange& change) {
  SqliteStatement& insert = *impl_->insert_change;
  insert.bind(1, impl_->last + 1);
  bind_target(insert, 2, change.target);
  insert.bind(6, change.old_writer);
  insert.bind(7, change.new_writer);
  insert.bind(8, std::span(change.old_image));
  insert.bind(9, std::span(change.new_image));
  if (auto run = insert.run(); !run) return impl_->refuse(run.error());
  impl_->hash.add(change);
  ++impl_->n_rows;
  return {};
}

Result<Transaction> EditLog::commit(Transaction tx) {
  tx.number = impl_->last + 1;
  tx.parent = impl_->last;
  tx.created_unix_ms = now_unix_ms();
  tx.n_rows = impl_->n_rows;
  tx.sha256 = finish_hash(impl_->hash, tx, impl_->last_sha256);
  SqliteStatement& insert = *impl_->insert_transaction;
  insert.bind(1, tx.number);
  insert.bind(2, tx.parent);
  insert.bind(3, static_cast<std::int64_t>(tx.kind));
  insert.bind(4, tx.subject);
  insert.bind(5, tx.created_unix_ms);
  insert.bind(6, tx.author);
  insert.bind(7, tx.reason);
  insert.bind(8, tx.n_rows);
  insert.bind(9, tx.sha256);
  if (auto run = insert.run(); !run) return impl_->refuse(run.error());
  if (auto done = impl_->db.execute("COMMIT"); !done) return impl_->refuse(done.error());
  if (tx.kind == TransactionKind::kMove) impl_->successor = successor_in(tx);
  impl_->last = tx.number;
  impl_->last_sha256 = tx.sha256;
  impl_->checkpoint();
  return tx;
}

void EditLog::abandon() {
  // A failed write rolls back by itself; the ROLLBACK that finds no transaction changes nothing.
  if (!sqlite3_get_autocommit(impl_->db.get())) {
    if (auto undone = impl_->db.execute("ROLLBACK"); !undone) impl_->failed = undone.error();
  }
}

Result<Transaction> EditLog::move_on(const Successor& successor, const std::string& author) {
  if (auto begun = begin(); !begun) return begun.error();
  auto moved = commit({.kind = TransactionKind::kMove,
                       .subject = successor.generation,
                       .author = author,
                       .reason = reason_of(successor)});
  if (!moved) abandon();
  return moved;
}

Result<Transaction> EditLog::transaction(std::int64_t number) {
  auto found = history({.before = number + 1, .author = {}, .target = {}}, 1);
  if (!found) return found.error();
  if (found->empty() || found->front().number != number) {
    return not_found("transaction " + std::to_string(number) + " does not exist: the newest is " +
                     std::to_string(last()));
  }
  return found->front();
}

// With a target, one look-up per transaction by change's key: no second index to keep.
Result<std::vector<Transaction>> EditLog::history(const HistoryFilter& filter, std::int64_t limit) {
  std::string sql = std::string("SELECT ") + kTransactionColumns +
                    " FROM tx WHERE id < ?1 AND (?2 = 0 OR author = ?3)";
  if (filter.target) {
    sql +=
        " AND EXISTS (SELECT 1 FROM change WHERE tx = tx.id AND layer = ?5 AND scope = ?6 AND "
        "col = ?7 AND change.id = ?8)";
  }
  sql += " ORDER BY id DESC LIMIT ?4";
  auto rows = SqliteStatement::prepare(impl_->db, sql.c_str());
  if (!rows) return rows.error();
  const std::string author = filter.author.value_or("");
  rows->bind(1, filter.before.value_or(impl_->last + 1));
  rows->bind(2, filter.author ? 1 : 0);
  rows->bind(3, author);
  rows->bind(4, limit);
  if (filter.target) bind_target(*rows, 5, *filter.target);
  std::vector<Transaction> found;
  auto row = rows->step();
  for (; row && *row; row = rows->step()) found.push_back(read_transaction(*rows));
  if (!row) return row.error();
  return found;
}

Result<void> EditLog::for_each_change(std::int64_t transaction, const Visit& visit) {
  auto rows = SqliteStatement::prepare(impl_->db,
                                       (std::string("SELECT ") + kChangeColumns +
                                        " FROM change WHERE tx = ?1 ORDER BY layer, scope, col, id")
                                           .c_str());
  if (!rows) return rows.error();
  rows->bind(1, transaction);
  RowChange change;
  auto row = rows->step();
  for (; row && *row; row = rows->step()) {
    read_change(*rows, 0, change);
    if (auto visited = visit(change); !visited) return visited;
  }
  if (!row) return row.error();
  return {};
}

Result<void> EditLog::for_each_difference(std::int64_t from, std::int64_t to, const Visit& visit) {
  auto keys = SqliteStatement::prepare(
      impl_->db,
      "SELECT layer, scope, col, id, min(tx), max(tx) FROM change WHERE tx > ?1 AND "
      "tx <= ?2 GROUP BY layer, scope, col, id ORDER BY layer, scope, col, id");
  if (!keys) return keys.error();
  auto change_of =
      SqliteStatement::prepare(impl_->db, (std::string("SELECT ") + kChangeColumns +
                                           " FROM change WHERE layer = ?1 AND "
                                           "scope = ?2 AND col = ?3 AND id = ?4 AND tx = ?5")
                                              .c_str());
  if (!change_of) return change_of.error();
  keys->bind(1, from);
  keys->bind(2, to);
  RowChange first, last;
  auto row = keys->step();
  for (; row && *row; row = keys->step()) {
    for (const auto& [change, column] : {std::pair(&first, 4), std::pair(&last, 5)}) {
      for (int i = 0; i < 4; ++i) change_of->bind(i + 1, keys->integer(i));
      change_of->bind(5, keys->integer(column));
      auto found = change_of->step();
      if (!found) return found.error();
      if (!*found) return impl_->damaged("a row of the history is gone");
      read_change(*change_of, 0, *change);
      change_of->reset();
    }
    first.new_image = last.new_image;
    first.new_writer = last.new_writer;
    if (first.old_writer == first.new_writer && first.old_image == first.new_image) continue;
    if (auto visited = visit(first); !visited) return visited;
  }
  if (!row) return row.error();
  return {};
}

Result<Snapshot> EditLog::snapshot(const std::string& name) {
  if (impl_->failed || impl_->successor) return begin().error();
  auto all = snapshots();
  if (!all) return all.error();
  for (const Snapshot& other : *all) {
    if (other.name == name) {
      return invalid_argument("snapshot '" + name + "' exists: it names transaction " +
                              std::to_string(other.transaction) + "; choose another name");
    }
  }
  const Snapshot snapshot{name, impl_->last, now_unix_ms()};
  const std::string sha256 = snapshot_hash(snapshot, impl_->last_sha256);
  auto insert = SqliteStatement::prepare(impl_->db, "INSERT INTO snapshot VALUES(?1, ?2, ?3, ?4)");
  if (!insert) return insert.error();
  insert->bind(1, snapshot.name);
  insert->bind(2, snapshot.transaction);
  insert->bind(3, snapshot.created_unix_ms);
  insert->bind(4, sha256);
  if (auto run = insert->run(); !run) return impl_->refuse(run.error());
  impl_->checkpoint();
  return snapshot;
}

Result<std::vector<Snapshot>> EditLog::snapshots() {
  auto rows = SqliteStatement::prepare(
      impl_->db, "SELECT name, tx, created_unix_ms FROM snapshot ORDER BY tx, name");
  if (!rows) return rows.error();
  std::vector<Snapshot> found;
  auto row = rows->step();
  for (; row && *row; row = rows->step()) {
    found.push_back({rows->text(0), rows->integer(1), rows->integer(2)});
  }
  if (!row) return row.error();
  return found;
}

}  // namespace engramd::engine
