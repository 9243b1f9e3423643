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

TableIdentity identity_of(const std::vector<CheckpointRows>& tensors, const EngramLayout& layout,
                          const std::string& token_map_sha256) {
  return {layout_sha256(layout), token_map_sha256, 1, sampled_content(tensors)};
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
  base->identity = identity_of(base->tensors, layout, token_map_sha256);
  return base;
}

// TableIdentity::base_content of a row file.
std::string content_of(const TableHeader& header) {
  char content[24];
  std::snprintf(content, sizeof content, "crc32c %08x", header.content_crc32c);
  return content;
}

Result<TableIdentity> identity_of(const TableHeader& header, const EngramLayout& layout,
                                  const std::string& token_map_sha256, const std::string& path) {
  if (auto fits = check_table_matches(header, layout, token_map_sha256); !fits) {
    return Error{fits.error().kind, path + ": " + fits.error().message};
  }
  return TableIdentity{layout_sha256(layout), token_map_sha256,
                       static_cast<std::int64_t>(header.generation), content_of(header)};
}

Result<std::shared_ptr<BaseTables>> base_of_file(const EngramLayout& layout,
                                                 const std::string& token_map_sha256,
                                                 const std::string& path,
                                                 const TableOpenOptions& options) {
  auto rows = TableRows::open(path, options);
  if (!rows) return rows.error();
  auto identity = identity_of((*rows)->header(), layout, token_map_sha256, path);
  if (!identity) return identity.error();
  auto base = std::make_shared<BaseTables>();
  base->identity = std::move(*identity);
  for (int layer = 0; layer < static_cast<int>(layout.layers.size()); ++layer) {
    base->layers.push_back(&(*rows)->source(layer));
    base->owners.push_back((*rows)->owner(layer));
  }
  base->file = std::move(*rows);
  return base;
}

void set_row_dtype(BaseTables& base, const std::string& name) {
  if (name == "float16") base.row_dtype = kernels::DType::kF16;
  if (name == "bfloat16") base.row_dtype = kernels::DType::kBF16;
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

bool exists(const std::string& path) {
  std::error_code code;  // a place that cannot be looked at has no edits to serve
  return !path.empty() && std::filesystem::exists(path, code);
}

// Which files hold the tables in effect.
struct TablePlace {
  std::string row_file;  // empty: the checkpoint's own tensors
  std::string edits_file;
  std::vector<std::string> successors;  // row files, the last one is row_file
};

// The header of what an edit file says its tables moved on to; it must be that and whole.
Result<TableFile> open_successor_file(const Successor& successor, const std::string& edits_file) {
  const std::string remedy =
      ": put that file back with its .edits file, or name the table to serve in engram.table.path "
      "and its edit file in engram.table.edits";
  const std::string moved = "the tables of " + edits_file + " moved on to " + successor.path;
  if (!exists(successor.path) || !exists(successor.path + ".edits")) {
    const bool has_rows = exists(successor.path);
    return not_found(moved + ", but " + successor.path + (has_rows ? ".edits" : "") +
                     " is missing" + remedy);
  }
  auto file = TableFile::open(successor.path);
  if (!file) return Error{file.error().kind, moved + ": " + file.error().message};
  const TableHeader& header = file->header();
  const std::string content = content_of(header);
  if (successor.content == content &&
      successor.generation == static_cast<std::int64_t>(header.generation)) {
    return file;
  }
  return invalid_argument(moved + ", but that is another table: expected generation " +
                          std::to_string(successor.generation) + ", " + successor.content +
                          ", got generation " + std::to_string(header.generation) + ", " + content +
                          remedy);
}

// Follows edit files whose tables moved on.
Result<TablePlace> find_tables(const EngramLayout& layout, const std::string& token_map_sha256,
                               const std::vector<CheckpointRows>& tensors,
                               const LiveTablesOptions& options) {
  TablePlace place;
  place.row_file = options.row_file;
  TableIdentity identity;
  RowFormat format;
  const auto read_header = [&](const TableFile& file) -> Result<void> {
    auto found = identity_of(file.header(), layout, token_map_sha256, file.path());
    if (!found) return found.error();
    identity = std::move(*found);
    format = file.header().format;
    return {};
  };
  if (!place.row_file.empty()) {
    const auto file = TableFile::open(place.row_file);
    if (!file) return file.error();
    if (auto read = read_header(*file); !read) return read.error();
  } else {
    identity = identity_of(tensors, layout, token_map_sha256);
    if (!tensors.empty()) format = tensors.front().format();
  }
  place.edits_file = edits_file_of(identity, options);
  while (exists(place.edits_file)) {
    const auto next = TableStore::successor_of(place.edits_file, identity, layout, format);
    // In use by another process: opening the tables says so.
    if (!next && next.error().kind == ErrorKind::kUnavailable) break;
    if (!next) return next.error();
    if (!*next) break;
    if (static_cast<int>(place.successors.size()) == LiveTables::kSuccessorsMax) {
      return limit_exceeded("tables moved on more than " +
                            std::to_string(LiveTables::kSuccessorsMax) + " times, from " +
                            place.successors.front() + " to " + place.successors.back() +
                            " and further: name the newest one in engram.table.path");
    }
    const auto file = open_successor_file(**next, place.edits_file);
    if (!file) return file.error();
    if (auto read = read_header(*file); !read) return read.error();
    place.row_file = (*next)->path;
    place.edits_file = place.row_file + ".edits";
    place.successors.push_back(place.row_file);
  }
  return place;
}

}  // namespace

Result<TableHeader> header_of(const EngramLayout& layout, const BaseTables& base) {
  const bool has_owners = std::all_of(base.owners.begin(), base.owners.end(),
                                      [](const std::uint16_t* owner) { return owner != nullptr; });
  return make_table_header(layout, base.format(0), has_owners, base.identity.token_map_hash,
                           static_cast<std::uint64_t>(base.identity.base_generation) + 1);
}

LiveTables::LiveTables(const EngramLayout& layout, LiveTablesOptions options, Served first)
    : layout_(&layout),
      options_(std::move(options)),
      served_(std::make_shared<const Served>(std::move(first))) {}

LiveTables::Served LiveTables::serve(std::shared_ptr<BaseTables> base, std::string edits_file) {
  Served served;
  std::vector<std::int64_t> image_bytes;
  for (const RowSource* rows : base->layers) image_bytes.push_back(rows->format().row_bytes());
  served.base = std::move(base);
  served.edits_file = std::move(edits_file);
  served.no_edits = std::make_shared<const Overlay>(image_bytes);
  return served;
}

Result<std::unique_ptr<LiveTables>> LiveTables::open(const EngramLayout& layout,
                                                     const std::string& token_map_sha256,
                                                     std::vector<CheckpointRows> tensors,
                                                     const LiveTablesOptions& options) {
  const auto place = find_tables(layout, token_map_sha256, tensors, options);
  if (!place) return place.error();
  auto base = place->row_file.empty()
                  ? base_of_tensors(layout, token_map_sha256, std::move(tensors),
                                    options.open.host_memory_bytes_max)
                  : base_of_file(layout, token_map_sha256, place->row_file, options.open);
  if (!base) return base.error();
  set_row_dtype(**base, options.row_dtype);
  Served first = serve(std::move(*base), place->edits_file);
  if (!place->successors.empty()) first.moved_to = place->row_file;
  if (exists(first.edits_file)) {
    auto store = open_store(layout, first);
    if (!store && store.error().kind != ErrorKind::kUnavailable) return store.error();
    if (store) {
      first.store = std::move(*store);
    } else {
      first.edits_error = store.error().message;
    }
  }
  return std::unique_ptr<LiveTables>(new LiveTables(layout, options, std::move(first)));
}

Result<std::vector<std::string>> LiveTables::successors(const EngramLayout& layout,
                                                        const std::string& token_map_sha256,
                                                        const std::vector<CheckpointRows>& tensors,
                                                        const LiveTablesOptions& options) {
  auto place = find_tables(layout, token_map_sha256, tensors, options);
  if (!place) return place.error();
  return std::move(place->successors);
}

std::shared_ptr<const LiveTables::Served> LiveTables::served() const {
  const std::lock_guard lock(swap_);
  return served_;
}

void LiveTables::publish(Served next) {
  auto swapped = std::make_shared<const Served>(std::move(next));
  const std::lock_guard lock(swap_);
  served_.swap(swapped);
  // What was served before goes outside the lock: `swapped` was declared first.
}

TableView LiveTables::view() const {
  const auto now = served();
  TableView view{now->base, now->store ? now->store->current() : now->no_edits, now->base_count};
  if (view.edits->number() == now->first_epoch) view.same_as = now->same_as;
  return view;
}

Result<std::shared_ptr<TableStore>> LiveTables::store() {
  const std::lock_guard lock(turn_);
  return store_in_turn();
}

Result<StoredTransaction> LiveTables::dry_run(std::vector<Edit> edits) {
  const std::lock_guard lock(turn_);
  const auto now = served();
  if (!now->edits_error.empty()) return unavailable(now->edits_error);
  if (now->store) return now->store->dry_run(std::move(edits));
  return TableStore::first_dry_run(*layout_, now->base->layers, std::move(edits));
}

Result<std::shared_ptr<TableStore>> LiveTables::store_in_turn() {
  Served next = *served();
  if (next.store) return next.store;
  if (next.edits_file.empty()) {
    return invalid_argument(
        "there is no place for edits: set engram.table.edits to a file, or HOME so that "
        "~/.local/state/engramd can be used");
  }
  const std::filesystem::path folder = std::filesystem::path(next.edits_file).parent_path();
  std::error_code code;
  if (!folder.empty()) std::filesystem::create_directories(folder, code);
  if (code) {
    return environment_error("cannot make the folder for edits " + folder.string() + ": " +
                             code.message() +
                             "; set engram.table.edits to a file that can be "
                             "written");
  }
  auto store = open_store(*layout_, next);
  if (!store) return store.error();
  next.store = *store;
  next.edits_error.clear();
  publish(std::move(next));
  return store;
}

// The store reads base rows: it holds them.
Result<std::shared_ptr<TableStore>> LiveTables::open_store(const EngramLayout& layout,
                                                           const Served& served) {
  auto store =
      TableStore::open(served.edits_file, served.base->identity, layout, served.base->layers);
  if (!store) return store.error();
  return std::shared_ptr<TableStore>(store->release(),
                                     [base = served.base](TableStore* opened) { delete opened; });
}

Result<LiveTables::Served> LiveTables::open_successor(const std::string& path,
                                                      const Served& before) const {
  auto base = base_of_file(*layout_, before.base->identity.token_map_hash, path, options_.open);
  if (!base) return base.error();
  set_row_dtype(**base, options_.row_dtype);
  Served next = serve(std::move(*base), path + ".edits");
  auto store = open_store(*layout_, next);
  if (!store) return store.error();
  next.first_epoch = (*store)->current()->number();
  next.store = std::move(*store);
  next.base_count = before.base_count + 1;
  next.moved_to = path;
  return next;
}

Result<void> LiveTables::move_on(const std::string& path, const MakeSuccessor& make,
                                 const std::string& author) {
  const std::lock_guard lock(turn_);
  if (layout_->layers.empty()) {
    return invalid_argument("this model has no Engram layers: there are no tables to fold");
  }
  const auto store = store_in_turn();
  if (!store) return store.error();
  const auto before = served();
  const auto header = header_of(*layout_, *before->base);
  if (!header) return header.error();
  // What would be refused afterwards is refused before hours of copying.
  if (auto plan = plan_table_memory(*header, options_.open); !plan) return plan.error();
  Served next;
  const auto write = [&](const EpochPointer& epoch) -> Result<Successor> {
    const TableView view{before->base, epoch, before->base_count};
    const auto is_same = make(view);
    if (!is_same) return is_same.error();
    auto opened = open_successor(path, *before);
    if (!opened) return opened.error();
    next = std::move(*opened);
    if (*is_same) next.same_as = view.stamp();
    const TableIdentity& identity = next.base->identity;
    return Successor{path, identity.base_generation, identity.base_content};
  };
  const auto moved = (*store)->move_on(write, author);
  if (!moved) return moved.error();
  publish(std::move(next));
  return {};
}

}  // namespace engramd::engine
