// Edits as tables for others: patched safetensors shards that any engine loads, and a folded row
// file, the next generation of the base.
// A plain table cannot hold an edit that is bound to one exact N-gram: its bucket is shared. Such
// edits are counted and left out, or written into their buckets when that is asked for.
// Formats: TABLES.md. Threads: any; nothing is shared. Not here: the edits alone as a
// file (overlay_file), making them (table_store).
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/engram/live_tables.h"
#include "engine/engram/table_writer.h"

namespace engramd::engine {

struct ExportOptions {
  bool ngrams_as_rows = false;  // exact N-grams into their buckets; the newest edit of a row wins
  std::function<void(std::int64_t done_bytes, std::int64_t total_bytes)> progress;
  std::stop_token stop;
  std::int64_t sync_bytes = 64 << 20;  // between journal entries
};

struct ExportReport {
  std::vector<std::string> files;     // written, each whole or not at all
  std::int64_t n_rows = 0;            // rows that differ from the base
  std::int64_t n_ngrams = 0;          // edits of exact N-grams that are in effect
  std::int64_t n_ngrams_carried = 0;  // of those, in the files
  std::int64_t n_conflicts = 0;       // rows that several edits wanted; the newest was written
  std::int64_t resumed_bytes = 0;     // found finished in partial files
  bool cloned = false;                // the file system shared the unchanged blocks (reflink)
};

// Copies of the checkpoint's safetensors files that hold Engram tables, patched, under their
// own names in `folder` (made when absent; a file of that name is refused). A clone where the file
// system can, else a copy; an interrupted copy of the same edits goes on where it was.
Result<ExportReport> export_shards(const Checkpoint& checkpoint, const EngramLayout& layout,
                                   const TableView& view, const std::string& folder,
                                   const ExportOptions& options);

// The base with its row edits as a row file of the next generation; edits of exact N-grams go into
// `path`.edits, where serving that file finds them. Resumable, as write_table. Refused: either file
// exists already.
Result<ExportReport> fold_table(const EngramLayout& layout, const TableView& view,
                                const std::string& path, const ExportOptions& options);

// The same, then `tables` serves the file instead (LiveTables::move_on), in this process and in
// every later one that opens them as this one did. Edits wait meanwhile, passes do not.
Result<ExportReport> fold_and_switch(LiveTables& tables, const std::string& path,
                                     const std::string& author, const ExportOptions& options);

}  // namespace engramd::engine
