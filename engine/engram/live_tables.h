// LiveTables: the Engram tables of a serving model: base rows (the checkpoint's own tensors or a
// row file) and the edits on them. view() hands out both as one immutable snapshot; a forward pass
// holds one from start to end. The edit file is made by the first edit, so that a process which
// never edits never locks it. A file that exists is opened with the tables: when it is damaged or
// belongs to other tables, nothing opens; when another process holds it, the base rows are served
// and edits_error() says so. Threads: every member from any thread. Not here: which rows a text
// addresses (addresser), reading rows for a pass (prefetcher), what is edited (table_store).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/engram/checkpoint_tables.h"
#include "engine/engram/table_rows.h"
#include "engine/engram/table_store.h"

namespace engramd::engine {

// Base rows; immutable.
struct BaseTables {
  std::vector<RowSource*> layers;            // as EngramLayout::layers
  std::vector<const std::uint16_t*> owners;  // per layer [n_rows]; nullptr: no tags in memory
  std::vector<CheckpointRows> tensors;       // either these
  std::unique_ptr<TableRows> file;           // or this
  TableIdentity identity;
  kernels::DType row_dtype = kernels::DType::kF32;  // decoded rows are rounded to kF16 or kBF16

  RowFormat format(int layer) const { return layers[static_cast<std::size_t>(layer)]->format(); }
};

struct TableView {
  std::shared_ptr<BaseTables> base;
  EpochPointer edits;

  const Overlay& overlay() const { return static_cast<const Overlay&>(*edits); }  // all there is
};

struct LiveTablesOptions {
  std::string row_file;    // engram.table.path; empty: the checkpoint's own tensors
  std::string edits_file;  // engram.table.edits; its folder is made when needed
  // Without edits_file: beside row_file, or here, named after the model and what its tables hold.
  std::string edits_folder;
  std::string model_name;
  std::string row_dtype = "float32";  // engram.lookup_dtype: float32, float16, bfloat16
  TableOpenOptions open;
};

class LiveTables {
 public:
  // layout and the tensors' mapping outlive this.
  static Result<std::unique_ptr<LiveTables>> open(const EngramLayout& layout,
                                                  const std::string& token_map_sha256,
                                                  std::vector<CheckpointRows> tensors,
                                                  const LiveTablesOptions& options);

  const EngramLayout& layout() const { return *layout_; }
  TableView view() const;

  // The store of edits, its file made when there is none yet. Errors: as TableStore::open; in use
  // by another process.
  Result<TableStore*> store();
  TableStore* opened_store() const { return store_.load(std::memory_order_acquire); }  // or nullptr
  const std::string& edits_file() const { return edits_file_; }
  // Why edits that exist are not served; empty: they are.
  const std::string& edits_error() const { return edits_error_; }

 private:
  LiveTables(const EngramLayout& layout, std::shared_ptr<BaseTables> base, std::string edits_file);
  Result<void> open_store();

  const EngramLayout* layout_;
  const std::shared_ptr<BaseTables> base_;
  const std::string edits_file_;
  std::string edits_error_;
  EpochPointer no_edits_;
  std::mutex opening_;  // one thread makes the store
  std::unique_ptr<TableStore> owned_store_;
  std::atomic<TableStore*> store_ = nullptr;
};

}  // namespace engramd::engine
