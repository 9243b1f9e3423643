// RowSource: the base rows of one Engram layer by row index, wherever they lie: mapped checkpoint
// tensors, engramd's own row file in memory or on disk. Base rows never change under a reader.
// Threads: resident() from any thread; read() from one at a time.
// Not here: edits (epoch, table_store), which rows a text addresses (addresser).
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>

#include "config/result.h"
#include "engine/engram/row_codec.h"

namespace engramd::engine {

// One row's stored bytes. Codes and scales may lie apart (checkpoint tensors) or together (row
// file, edited rows: scales follow the codes). scales is nullptr for codecs without any.
struct RowBytes {
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* scales = nullptr;
};

struct RowFormat {
  RowCodec codec = RowCodec::kF8E4M3E8M0;
  int n_columns = 0;          // head_dim
  float tensor_scale = 1.0F;  // kF8E4M3TensorScale only

  std::int64_t codes_bytes() const { return row_bytes(codec, n_columns) - scales_bytes(); }
  std::int64_t scales_bytes() const {
    if (codec == RowCodec::kF8E4M3E8M0) return (n_columns + kScaleBlock - 1) / kScaleBlock;
    return codec == RowCodec::kI8Scale ? static_cast<std::int64_t>(sizeof(float)) : 0;
  }
};

class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual RowFormat format() const = 0;
  virtual std::int64_t n_rows() const = 0;
  // The row where it lies in memory; codes == nullptr when it has to be read.
  virtual RowBytes resident(std::int64_t row) const = 0;
  // Row images (codes, then scales) of `rows` (any order, duplicates allowed) into `images`
  // [rows.size(), row_bytes]. Errors: a damaged page (file, page, remedy), a file that became
  // shorter, a requested stop.
  virtual Result<void> read(std::span<const std::int64_t> rows, std::uint8_t* images,
                            std::stop_token stop) = 0;
};

}  // namespace engramd::engine
