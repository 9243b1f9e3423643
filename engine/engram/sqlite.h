// SqliteConnection and SqliteStatement: RAII around the part of SQLite's C interface that edit_log
// uses, with result codes turned into one-line errors. One thread at a time.
// Not here: which statements there are (edit_log).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sqlite3.h>

#include "config/result.h"

namespace engramd::engine {

class SqliteConnection {
 public:
  // vfs: name of a registered VFS; empty: the system's. The file is made when it is absent.
  static Result<SqliteConnection> open(const std::string& path, const std::string& vfs);

  const std::string& path() const { return path_; }
  sqlite3* get() const { return connection_.get(); }
  Result<void> execute(const std::string& sql);
  Result<std::string> text_of(const std::string& sql);  // the first column of the first row, or ""
  // What `code`, just returned on this connection, means for the file; what: the attempted action.
  Error error(int code, std::string_view what) const;

 private:
  struct Close {
    void operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }
  };
  explicit SqliteConnection(std::string path) : path_(std::move(path)) {}
  std::string path_;
  std::unique_ptr<sqlite3, Close> connection_;
};

class SqliteStatement {
 public:
  static Result<SqliteStatement> prepare(const SqliteConnection& connection, const char* sql);

  // Parameters count from 1. Text and blobs are read during step(): they must live until then.
  void bind(int parameter, std::int64_t value);
  void bind(int parameter, std::string_view text);
  void bind(int parameter, std::span<const std::uint8_t> blob);
  Result<bool> step();  // true: a row is there
  Result<void> run();   // step to the end and reset
  void reset() { sqlite3_reset(statement_.get()); }

  std::int64_t integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  std::string text(int column) const;
  void blob(int column, std::vector<std::uint8_t>& bytes) const;

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  const SqliteConnection* connection_ = nullptr;
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

}  // namespace engramd::engine
