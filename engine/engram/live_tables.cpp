#include "engine/engram/live_tables.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/engram/crc32c.h"
#include "engine/engram/sha256.h"

namespace engramd::engine {
namespace {

constexpr std::int64_t kSampledRows = 1024;  // per layer

// Tells a swapped or retrained table from the one that edits were made for, without reading all of
// it: CRC32C over rows spread evenly over the tables.
std::string sampled_content(const std::vector<CheckpointRows>& tensors) {
  std::string digest;
  for (const CheckpointRows& layer : tensors) {
    const RowFormat format = layer.format();
    const std::int64_t n = std::min(layer.n_rows(), kSampledRows);
    std::vector<std::uint8_t> rows;
    for (std::int64_t i = 0; i < n; ++i) {
      const RowBytes row = layer.resident(layer.n_rows() / n * i);
      rows.insert(rows.end(), row.codes, row.codes + format.codes_bytes());
      if (row.scales != nullptr) {
        rows.insert(rows.end(), row.scales, row.scales + format.scales_bytes());
      }
    }
    char text[16];
    std::snprintf(text, sizeof text, "%08x", crc32c(rows.data(), rows.size()));
    digest += text;
  }
  return "sampled " + digest;
}

// The checkpoint's tensors are mapped whole: they cannot obey a limit below their size.
Result<std::shared_ptr<BaseTables>> base_of_tensors(const EngramLayout& layout,
                                                    const std::string& token_map_sha256,
                                                    std::vector<CheckpointRows> tensors,
                                                    std::int64_t host_memory_bytes_max) {
  std::int64_t bytes = 0;
  for (const CheckpointRows& rows : tensors) bytes += rows.bytes();
  if (host_memory_bytes_max > 0 && bytes > host_memory_bytes_max) {
    return limit_exceeded("the model's own table takes " + gigabytes(bytes) +
                          ", engram.host_memory_limit_gb is " + gigabytes(host_memory_bytes_max) +
                          ": make a row file of it with `engramd table import` and name that in "
                          "engram.table.path, which is read from the file as needed");
  }
  auto base = std::make_shared<BaseTables>();
  base->tensors = std::move(tensors);
  for (CheckpointRows& rows : base->tensors) {
    base->layers.push_back(&rows);
    base->owners.push_back(rows.owner());
  }
  base->identity = {layout_sha256(layout), token_map_sha256, 1, sampled_content(base->tensors)};
  return base;
}

Result<std::shared_ptr<BaseTables>> base_of_file(const EngramLayout& layout,
                                                 const std::string& token_map_sha256,
                                                 const LiveTablesOptions& options) {
  auto rows = TableRows::open(options.row_file, options.open);
  if (!rows) return rows.error();
  const TableHeader& header = (*rows)->header();
  if (auto fits = check_table_matches(header, layout, token_map_sha256); !fits) {
    return Error{fits.error().kind, options.row_file + ": " + fits.error().message};
  }
  char content[24];
  std::snprintf(content, sizeof content, "crc32c %08x", header.content_crc32c);
  auto base = std::make_shared<BaseTables>();
  base->identity = {layout_sha256(layout), token_map_sha256,
                    static_cast<std::int64_t>(header.generation), content};
  for (int layer = 0; layer < static_cast<int>(layout.layers.size()); ++layer) {
    base->layers.push_back(&(*rows)->source(layer));
    base->owners.push_back((*rows)->owner(layer));
  }
  base->file = std::move(*rows);
  return base;
}

std::string edits_file_of(const TableIdentity& identity, const LiveTablesOptions& options) {
  if (!options.edits_file.empty()) return options.edits_file;
  if (!options.row_file.empty()) return options.row_file + ".edits";
  if (options.edits_folder.empty()) return {};
  // The model may move, and another of the same name has its own edits.
  const std::string hash =
      sha256_hex(identity.layout_hash + identity.token_map_hash + identity.base_content);
  return options.edits_folder + "/" + options.model_name + "-" + hash.substr(0, 12) + ".edits";
}

}  // namespace

LiveTables::LiveTables(const EngramLayout& layout, std::shared_ptr<BaseTables> base,
                       std::string edits_file)
    : layout_(&layout), base_(std::move(base)), edits_file_(std::move(edits_file)) {
  std::vector<std::int64_t> image_bytes;
  for (const RowSource* rows : base_->layers) image_bytes.push_back(rows->format().row_bytes());
  no_edits_ = std::make_shared<const Overlay>(image_bytes);
}

Result<std::unique_ptr<LiveTables>> LiveTables::open(const EngramLayout& layout,
                                                     const std::string& token_map_sha256,
                                                     std::vector<CheckpointRows> tensors,
                                                     const LiveTablesOptions& options) {
  auto base = options.row_file.empty()
                  ? base_of_tensors(layout, token_map_sha256, std::move(tensors),
                                    options.open.host_memory_bytes_max)
                  : base_of_file(layout, token_map_sha256, options);
  if (!base) return base.error();
  if (options.row_dtype == "float16") (*base)->row_dtype = kernels::DType::kF16;
  if (options.row_dtype == "bfloat16") (*base)->row_dtype = kernels::DType::kBF16;
  std::unique_ptr<LiveTables> tables(
      new LiveTables(layout, *base, edits_file_of((*base)->identity, options)));
  std::error_code code;  // a place that cannot be looked at has no edits to serve
  if (!tables->edits_file_.empty() && std::filesystem::exists(tables->edits_file_, code)) {
    const std::lock_guard lock(tables->opening_);
    const auto opened = tables->open_store();
    if (!opened && opened.error().kind != ErrorKind::kUnavailable) return opened.error();
    if (!opened) tables->edits_error_ = opened.error().message;
  }
  return tables;
}

TableView LiveTables::view() const {
  const TableStore* store = opened_store();
  return {base_, store != nullptr ? store->current() : no_edits_};
}

Result<TableStore*> LiveTables::store() {
  const std::lock_guard lock(opening_);
  if (owned_store_) return owned_store_.get();
  if (edits_file_.empty()) {
    return invalid_argument(
        "there is no place for edits: set engram.table.edits to a file, or HOME so that "
        "~/.local/state/engramd can be used");
  }
  const std::filesystem::path folder = std::filesystem::path(edits_file_).parent_path();
  std::error_code code;
  if (!folder.empty()) std::filesystem::create_directories(folder, code);
  if (code) {
    return environment_error("cannot make the folder for edits " + folder.string() + ": " +
                             code.message() +
                             "; set engram.table.edits to a file that can be "
                             "written");
  }
  if (const auto opened = open_store(); !opened) return opened.error();
  return owned_store_.get();
}

Result<void> LiveTables::open_store() {
  auto store = TableStore::open(edits_file_, base_->identity, *layout_, base_->layers);
  if (!store) return store.error();
  owned_store_ = std::move(*store);
  store_.store(owned_store_.get(), std::memory_order_release);
  return {};
}

}  // namespace engramd::engine
