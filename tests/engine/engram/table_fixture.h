// Small tables in memory and a temporary folder, for the tests of edits.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <stdlib.h>

#include "config/assert.h"
#include "engine/engram/addresser.h"
#include "engine/engram/table_store.h"

namespace engramd::engine {

class MemoryRows : public RowSource {
 public:
  MemoryRows(RowFormat format, std::int64_t n_rows, bool is_resident = true)
      : format_(format), n_rows_(n_rows), is_resident_(is_resident) {
    std::vector<float> values(static_cast<std::size_t>(format.n_columns));
    for (std::int64_t row = 0; row < n_rows; ++row) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>((row * 7 + static_cast<std::int64_t>(i) * 3) % 61 - 30) / 8;
      }
      const auto image = encode_row(format.codec, values, format.tensor_scale).value();
      images_.insert(images_.end(), image.begin(), image.end());
    }
  }
  RowFormat format() const override { return format_; }
  std::int64_t n_rows() const override { return n_rows_; }
  RowBytes resident(std::int64_t row) const override {
    if (!is_resident_) return {};
    return {images_.data() + row * bytes(), nullptr};
  }
  Result<void> read(std::span<const std::int64_t> rows, std::uint8_t* images,
                    std::stop_token) override {
    for (const std::int64_t row : rows) {
      std::memcpy(images, images_.data() + row * bytes(), static_cast<std::size_t>(bytes()));
      images += bytes();
    }
    return {};
  }
  std::vector<std::uint8_t> image(std::int64_t row) const {
    return {images_.begin() + row * bytes(), images_.begin() + (row + 1) * bytes()};
  }

 private:
  std::int64_t bytes() const { return format_.codes_bytes() + format_.scales_bytes(); }
  RowFormat format_;
  std::int64_t n_rows_;
  bool is_resident_;
  std::vector<std::uint8_t> images_;
};

// Two layers, orders 2 and 3, two heads, a few hundred rows.
struct SmallTables {
  explicit SmallTables(RowFormat format = {RowCodec::kF8E4M3E8M0, 32}, bool is_resident = true) {
    EngramLayoutConfig config;
    config.layer_ids = {1, 3};
    config.n_heads = 2;
    config.head_dim = format.n_columns;
    config.vocab_size = {101, 101};
    config.hashed_vocab_size = 100;
    layout = make_layout(config).value();
    for (const EngramLayer& layer : layout.layers) {
      rows.push_back(std::make_unique<MemoryRows>(format, layer.n_rows, is_resident));
    }
  }
  std::vector<RowSource*> base() const {
    std::vector<RowSource*> pointers;
    for (const auto& source : rows) pointers.push_back(source.get());
    return pointers;
  }
  Result<std::unique_ptr<TableStore>> open(const std::string& path,
                                           const std::string& vfs = {}) const {
    return TableStore::open(path, identity, layout, base(), vfs);
  }

  EngramLayout layout;
  std::vector<std::unique_ptr<MemoryRows>> rows;
  TableIdentity identity{"aa11", "bb22", 1};
};

// A folder that goes with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "engramd_edits_XXXXXX").string();
    ENGRAMD_ASSERT(mkdtemp(name.data()));
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline Edit set_edit(const EditTarget& target, float value, int n_columns = 32) {
  Edit edit;
  edit.target = target;
  edit.values.assign(static_cast<std::size_t>(n_columns), value);
  return edit;
}

}  // namespace engramd::engine
