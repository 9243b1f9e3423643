// OverlayFile: all edits in effect and nothing else, as one small safetensors file that another
// engramd stores as one transaction. Format: TABLES.md. A file is untrusted: open() checks that
// every section is as long as it says, TableStore checks every target and image. Immutable after
// open: any thread.
#pragma once

#include <cstdint>
#include <map>
#include <stop_token>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/engram/live_tables.h"

namespace engramd::engine {

class OverlayFile {
 public:
  // row_bytes: of an image; n_layers: of the layout. Sections of other layers are ignored.
  static Result<OverlayFile> open(const std::string& path, int n_layers, std::int64_t row_bytes);

  const std::map<std::string, std::string>& metadata() const { return file_.header().metadata; }
  std::int64_t n_edits() const;
  // Every edit as the operation kImage, in the file's order; false: no more.
  class Reader {
   public:
    explicit Reader(const OverlayFile& file) : file_(&file) {}
    bool next(Edit& edit);

   private:
    const OverlayFile* file_;
    std::size_t section_ = 0;
    std::int64_t index_ = 0;
  };

 private:
  struct Section {
    EditTarget target;  // layer and scope
    std::int64_t n = 0;
    const std::int64_t* ids = nullptr;
    const std::int32_t* columns = nullptr;  // N-grams only
    const std::uint8_t* images = nullptr;   // [n, row_bytes]
  };
  OverlayFile(SafetensorsFile file, std::int64_t row_bytes)
      : file_(std::move(file)), row_bytes_(row_bytes) {}
  Result<void> add_section(int layer, EditScope scope);

  SafetensorsFile file_;
  std::int64_t row_bytes_;
  std::vector<Section> sections_;
};

struct OverlayCounts {
  std::int64_t n_rows = 0, n_ngrams = 0;  // edits per scope
};
Result<OverlayCounts> write_overlay_file(const EngramLayout& layout, const TableView& view,
                                         const std::string& path);
// Stores the file's edits as one transaction. Refused: of other tables or another codec.
Result<Transaction> import_overlay_file(const std::string& path, const EngramLayout& layout,
                                        const BaseTables& base, TableStore& store,
                                        const std::string& author, const std::string& reason,
                                        std::stop_token stop);

}  // namespace engramd::engine
