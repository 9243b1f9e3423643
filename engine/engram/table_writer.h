// Writing row files: the whole file appears under its name at the end (fsync, rename, fsync of the
// folder), never a part of it. Until then it grows as PATH.partial, whose first page is a journal
// of the pages that are known to be on disk: the same job, started again, goes on from there.
// Memory stays flat whatever the size; pages of zeros become holes. One thread; a lock on the
// partial file keeps a second process out.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>

#include "config/result.h"
#include "engine/engram/row_source.h"
#include "engine/engram/table_file.h"

namespace engramd::engine {

// What is to be written. Asked in ascending order, from one thread; after a resume not from row 0.
class TableContent {
 public:
  virtual ~TableContent() = default;
  // Images of rows first .. first + count - 1 of layer index `layer`: [count, row_bytes].
  virtual Result<void> rows(int layer, std::int64_t first, std::int64_t count,
                            std::uint8_t* images) = 0;
  // Owner tags of those rows: [tags.size()]. Only asked when the header has tags.
  virtual Result<void> owner_tags(int layer, std::int64_t first, std::span<std::uint16_t> tags) = 0;
  // Changes when the content would: a partial file of another content is not continued.
  virtual std::string identity() const = 0;
};

struct TableProgress {
  std::int64_t pages_done = 0;
  std::int64_t pages_total = 0;
  std::int64_t pages_resumed = 0;  // of pages_done, found finished in a partial file
};

struct TableWriteOptions {
  std::function<void(const TableProgress&)> progress;  // about every MiB
  std::stop_token stop;
  std::int64_t sync_bytes = 64 << 20;  // between journal entries
};

// Refused: `path` exists already. Cancelled or failed: PATH.partial stays, to be continued.
Result<void> write_table(const std::string& path, TableHeader header, TableContent& content,
                         const TableWriteOptions& options = {});

// Rows of zeros, as `table create` makes them.
class ZeroContent final : public TableContent {
 public:
  static Result<ZeroContent> make(const RowFormat& format);
  Result<void> rows(int layer, std::int64_t first, std::int64_t count,
                    std::uint8_t* images) override;
  Result<void> owner_tags(int layer, std::int64_t first, std::span<std::uint16_t> tags) override;
  std::string identity() const override { return "zeros"; }

 private:
  explicit ZeroContent(std::vector<std::uint8_t> image) : image_(std::move(image)) {}
  std::vector<std::uint8_t> image_;  // one encoded row
};

}  // namespace engramd::engine
