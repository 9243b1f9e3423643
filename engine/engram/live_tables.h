// LiveTables: the Engram tables of a serving model: base rows (the checkpoint's own tensors or a
// row file) and the edits on them. view() hands out both as one immutable snapshot; a forward pass
// holds one from start to end. The edit file is made by the first edit, so that a process which
// never edits never locks it. A file that exists is opened with the tables: when it is damaged or
// belongs to other tables, nothing opens; when another process holds it, the base rows are served
// and edits_error() says so.
// move_on() changes base and edits for a successor's while passes run: each ends on what it began
// with, which is closed when the last view of it goes. An edit file whose tables moved on is
// followed when it is opened.
// Threads: every member from any thread. Not here: which rows a text addresses (addresser), reading
// rows for a pass (prefetcher), what is edited (table_store), writing a successor (table_export).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
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

// Which state of the tables something was computed from; the same state, the same bits.
struct TableStamp {
  std::uint64_t base = 0;   // counts the bases that the process has served
  std::uint64_t epoch = 0;  // Epoch::number()

  bool operator==(const TableStamp&) const = default;
};

struct TableView {
  std::shared_ptr<BaseTables> base;
  EpochPointer edits;
  std::uint64_t base_count = 0;  // TableStamp::base
  // The state of the base before in which every row and N-gram had the image that it has here.
  std::optional<TableStamp> same_as = {};

  TableStamp stamp() const { return {base_count, edits->number()}; }
  const Overlay& overlay() const { return static_cast<const Overlay&>(*edits); }  // all there is
};

// Of the row file that a base becomes: the next generation.
Result<TableHeader> header_of(const EngramLayout& layout, const BaseTables& base);

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
  // A chain of successors beyond this is refused; naming the newest one makes it short again.
  static constexpr int kSuccessorsMax = 100;

  // layout and the tensors' mapping outlive this.
  static Result<std::unique_ptr<LiveTables>> open(const EngramLayout& layout,
                                                  const std::string& token_map_sha256,
                                                  std::vector<CheckpointRows> tensors,
                                                  const LiveTablesOptions& options);
  // The row files that options.row_file (or the tensors) moved on to, the one in effect last.
  static Result<std::vector<std::string>> successors(const EngramLayout& layout,
                                                     const std::string& token_map_sha256,
                                                     const std::vector<CheckpointRows>& tensors,
                                                     const LiveTablesOptions& options);

  const EngramLayout& layout() const { return *layout_; }
  TableView view() const;

  // The store of edits, its file made when there is none yet; waits while the tables move on. Holds
  // the base that it edits. Errors: as TableStore::open; in use by another process.
  Result<std::shared_ptr<TableStore>> store();
  // What the store would make of the edits; makes no file.
  Result<StoredTransaction> dry_run(std::vector<Edit> edits);
  std::shared_ptr<TableStore> opened_store() const { return served()->store; }  // or nullptr
  std::string edits_file() const { return served()->edits_file; }
  // Why edits that exist are not served; empty: they are.
  std::string edits_error() const { return served()->edits_error; }
  // The row file in effect, when it is not the one that the options name.
  std::string moved_to() const { return served()->moved_to; }

  // Serves row file `path` from now on. `make` writes it and its edits from what is in effect (the
  // view it is given); edits wait meanwhile. It answers whether both hold the same image for every
  // row and N-gram. The old edit file's last transaction, by `author`, says where its tables are:
  // before that is durable, and after any failure, the old ones are in effect.
  using MakeSuccessor = std::function<Result<bool>(const TableView& view)>;
  Result<void> move_on(const std::string& path, const MakeSuccessor& make,
                       const std::string& author);

 private:
  // One base with its edits; immutable, replaced as a whole.
  struct Served {
    std::shared_ptr<BaseTables> base;
    std::string edits_file;
    std::string edits_error;
    std::string moved_to;
    EpochPointer no_edits;
    std::shared_ptr<TableStore> store;  // nullptr: nothing was edited; keeps `base` alive
    std::uint64_t base_count = 1;
    std::optional<TableStamp> same_as;  // at epoch `first_epoch`, and only then
    std::uint64_t first_epoch = 0;
  };

  LiveTables(const EngramLayout& layout, LiveTablesOptions options, Served first);
  static Served serve(std::shared_ptr<BaseTables> base, std::string edits_file);
  static Result<std::shared_ptr<TableStore>> open_store(const EngramLayout& layout,
                                                        const Served& served);
  std::shared_ptr<const Served> served() const;
  void publish(Served next);
  Result<std::shared_ptr<TableStore>> store_in_turn();
  Result<Served> open_successor(const std::string& path, const Served& before) const;

  const EngramLayout* layout_;
  const LiveTablesOptions options_;
  std::mutex turn_;          // one thread makes the store or moves on
  mutable std::mutex swap_;  // guards served_ for the time of one pointer copy
  std::shared_ptr<const Served> served_;
};

}  // namespace engramd::engine
