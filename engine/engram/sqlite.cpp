#include "engine/engram/sqlite.h"

#include "config/assert.h"

namespace engramd::engine {

Result<SqliteConnection> SqliteConnection::open(const std::string& path, const std::string& vfs) {
  SqliteConnection connection(path);
  sqlite3* handle = nullptr;
  // NOMUTEX: the table store's mutex already lets in one thread at a time.
  const int flags =
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  const int code =
      sqlite3_open_v2(path.c_str(), &handle, flags, vfs.empty() ? nullptr : vfs.c_str());
  connection.connection_.reset(handle);
  if (code != SQLITE_OK) return connection.error(code, "opened");
  return connection;
}

Result<void> SqliteConnection::execute(const std::string& sql) {
  const int code = sqlite3_exec(get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return error(code, "prepared for use");
  return {};
}

Result<std::string> SqliteConnection::text_of(const std::string& sql) {
  auto statement = SqliteStatement::prepare(*this, sql.c_str());
  if (!statement) return statement.error();
  auto row = statement->step();
  if (!row) return row.error();
  return *row ? statement->text(0) : std::string();
}

Error SqliteConnection::error(int code, std::string_view what) const {
  const std::string file = "edit log " + path_;
  const std::string cause =
      std::string(" (SQLite: ") + sqlite3_errstr(code) + ", code " + std::to_string(code) + ")";
  switch (code & 0xFF) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return unavailable(file +
                         " is in use by another process: one process may edit a table; stop "
                         "the other engramd, or give this one its own table");
    case SQLITE_NOTADB:
      return invalid_argument(file +
                              " is not an edit log: expected an SQLite 3 file made by "
                              "engramd, got other bytes" +
                              cause + "; name another file");
    case SQLITE_CORRUPT:
      return invalid_argument(file + " is damaged" + cause +
                              ": restore it, with its -wal file, from a copy");
    case SQLITE_FULL:
      return environment_error(file + " could not be " + std::string(what) +
                               ": the disk is full; nothing was changed, free some space" + cause);
    default:
      return environment_error(file + " could not be " + std::string(what) + cause +
                               ": check the path, the permissions and the disk");
  }
}

Result<SqliteStatement> SqliteStatement::prepare(const SqliteConnection& connection,
                                                 const char* sql) {
  SqliteStatement statement;
  statement.connection_ = &connection;
  sqlite3_stmt* handle = nullptr;
  const int code =
      sqlite3_prepare_v3(connection.get(), sql, -1, SQLITE_PREPARE_PERSISTENT, &handle, nullptr);
  statement.statement_.reset(handle);
  if (code != SQLITE_OK) return connection.error(code, "read");
  return statement;
}

void SqliteStatement::bind(int parameter, std::int64_t value) {
  ENGRAMD_ASSERT(sqlite3_bind_int64(statement_.get(), parameter, value) == SQLITE_OK);
}

void SqliteStatement::bind(int parameter, std::string_view text) {
  ENGRAMD_ASSERT(sqlite3_bind_text64(statement_.get(), parameter, text.data(), text.size(),
                                     SQLITE_STATIC, SQLITE_UTF8) == SQLITE_OK);
}

void SqliteStatement::bind(int parameter, std::span<const std::uint8_t> blob) {
  ENGRAMD_ASSERT(sqlite3_bind_blob64(statement_.get(), parameter, blob.data(), blob.size(),
                                     SQLITE_STATIC) == SQLITE_OK);
}

Result<bool> SqliteStatement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  const Error error = connection_->error(code, "read or written");
  reset();
  return error;
}

Result<void> SqliteStatement::run() {
  auto row = step();
  while (row && *row) row = step();
  if (!row) return row.error();
  reset();
  return {};
}

std::string SqliteStatement::text(int column) const {
  const auto* text = sqlite3_column_text(statement_.get(), column);
  const auto n = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column));
  return text ? std::string(reinterpret_cast<const char*>(text), n) : std::string();
}

void SqliteStatement::blob(int column, std::vector<std::uint8_t>& bytes) const {
  const auto* data =
      static_cast<const std::uint8_t*>(sqlite3_column_blob(statement_.get(), column));
  const int n = sqlite3_column_bytes(statement_.get(), column);
  bytes.assign(data, data + n);
}

}  // namespace engramd::engine
