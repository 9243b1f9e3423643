// RowSource: the base rows of one Engram layer by row index, wherever they lie: mapped checkpoint
// tensors, engramd's own row file in memory or on disk. Base rows never change under a reader.
// Threads: resident() and resident_rows() from any thread; read() from one at a time.
// Not here: edits (epoch, table_store), which rows a text addresses (addresser).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>

#include "config/result.h"
#include "engine/engram/row_codec.h"

namespace engramd::engine {

class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual RowFormat format() const = 0;
  virtual std::int64_t n_rows() const = 0;
  // The row where it lies in memory; codes == nullptr when it has to be read.
  virtual RowBytes resident(std::int64_t row) const = 0;
  // The same of many rows: places [rows.size()].
  virtual void resident_rows(std::span<const std::int64_t> rows, RowBytes* places) const {
    for (std::size_t i = 0; i < rows.size(); ++i) places[i] = resident(rows[i]);
  }
  // Row images (codes, then scales) of `rows` (any order, duplicates allowed) into `images`
  // [rows.size(), row_bytes]. Errors: a damaged page (file, page, remedy), a file that became
  // shorter, a requested stop.
  virtual Result<void> read(std::span<const std::int64_t> rows, std::uint8_t* images,
                            std::stop_token stop) = 0;
};

}  // namespace engramd::engine
