// The Engram tables of a model folder where they lie: safetensors, sharded or not, mapped. Enough
// to read rows, to import them into a row file and to compare one with its model; the rest of the
// model (engine/model) is not opened. Immutable after open: any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/checkpoint/shard_index.h"
#include "engine/engram/layout.h"
#include "engine/engram/row_source.h"
#include "engine/engram/table_writer.h"
#include "engine/engram/token_map.h"

namespace engramd::engine {

// One layer's tensors in place. Everything is resident (mapped); nothing has to be read.
class CheckpointRows final : public RowSource {
 public:
  // Tensors PREFIX.weight [n_rows, n_columns], .scale (per the codec), .owner [n_rows] u16. The
  // codec follows from their types: F32, F16, BF16, F8_E4M3 (alone; with one F32; with F8_E8M0 per
  // 32 columns), I8 with F32 per row.
  static Result<CheckpointRows> bind(const Checkpoint& checkpoint, const std::string& prefix,
                                     std::int64_t n_rows, int n_columns);

  RowFormat format() const override { return format_; }
  std::int64_t n_rows() const override { return n_rows_; }
  RowBytes resident(std::int64_t row) const override;
  Result<void> read(std::span<const std::int64_t> rows, std::uint8_t* images,
                    std::stop_token stop) override;
  const std::uint16_t* owner() const { return owner_; }  // [n_rows] or nullptr
  std::int64_t bytes() const;                            // rows, scales and owner tags

 private:
  RowFormat format_;
  std::int64_t n_rows_ = 0;
  const std::uint8_t* codes_ = nullptr;   // [n_rows, codes_bytes]
  const std::uint8_t* scales_ = nullptr;  // [n_rows, scales_bytes] or nullptr
  const std::uint16_t* owner_ = nullptr;
};

struct CheckpointTables {
  EngramLayout layout;
  TokenMap token_map;
  Checkpoint checkpoint;  // owns the mapping that `layers` point into
  std::vector<CheckpointRows> layers;
};

// Name of a layer's table tensors without their last part: transformers' names, or DeepSeek's own.
std::string table_prefix(const Checkpoint& checkpoint, std::int64_t layer_id);

// Config, layout and token map of a folder; the model need not have been imported or bound. The map
// is the tensor model.engram.token_map or, without it, built from tokenizer.json.
Result<CheckpointTables> open_checkpoint_tables(const std::string& folder);
// The same without its rows (`layers` stays empty): for table create.
Result<CheckpointTables> open_checkpoint_layout(const std::string& folder);

// A checkpoint's tables as what a row file is written from.
class CheckpointContent final : public TableContent {
 public:
  // `tables` outlives this; `folder` gives the identity (names, sizes and times of its files).
  CheckpointContent(CheckpointTables& tables, const std::string& folder);
  Result<TableHeader> header() const;  // generation 1

  Result<void> rows(int layer, std::int64_t first, std::int64_t count,
                    std::uint8_t* images) override;
  Result<void> owner_tags(int layer, std::int64_t first, std::span<std::uint16_t> tags) override;
  std::string identity() const override { return identity_; }

 private:
  CheckpointTables* tables_;
  std::string identity_;
};

}  // namespace engramd::engine
