#include "engine/engram/table_export.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "engine/checkpoint/safetensors_writer.h"
#include "engine/engram/addresser.h"
#include "engine/engram/sha256.h"

namespace engramd::engine {
namespace {

constexpr std::int64_t kCopyBytes = 64 << 20;
constexpr char kOverlayFormat[] = "engramd overlay 1";

struct PatchedRow {
  int layer = 0;
  std::int64_t row = 0;
  std::int64_t transaction = 0;
  const std::uint8_t* image = nullptr;  // lives as long as the view
};

const Overlay& overlay_of(const TableView& view) {
  return static_cast<const Overlay&>(*view.edits);  // the only Epoch there is
}

// What a plain table can carry: one image per row, ascending.
std::vector<PatchedRow> patched_rows(const EngramLayout& layout, const TableView& view,
                                     bool ngrams_as_rows, ExportReport& report) {
  std::vector<PatchedRow> rows;
  overlay_of(view).for_each([&](const EditTarget& target, const RowEdit& edit) {
    std::int64_t row = target.id;
    if (target.scope == EditScope::kNgram) {
      ++report.n_ngrams;
      if (!ngrams_as_rows) return;
      ++report.n_ngrams_carried;
      row = row_of(layout.layers[static_cast<std::size_t>(target.layer)], target.column,
                   static_cast<std::uint64_t>(target.id));
    }
    rows.push_back({target.layer, row, edit.transaction, edit.image});
  });
  std::sort(rows.begin(), rows.end(), [](const PatchedRow& a, const PatchedRow& b) {
    return std::tie(a.layer, a.row, b.transaction) < std::tie(b.layer, b.row, a.transaction);
  });
  const auto last = std::unique(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.layer == b.layer && a.row == b.row;
  });
  report.n_conflicts = rows.end() - last;
  rows.erase(last, rows.end());
  report.n_rows = static_cast<std::int64_t>(rows.size());
  return rows;
}

class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

Result<void> write_at(int descriptor, const std::string& path, const std::uint8_t* bytes,
                      std::int64_t n, std::int64_t offset) {
  while (n > 0) {
    const ssize_t written = ::pwrite(descriptor, bytes, static_cast<std::size_t>(n), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return file_failure(path, "cannot write");
    bytes += written;
    offset += written;
    n -= written;
  }
  return {};
}

// The file's bytes, by sharing its blocks where the file system can.
Result<void> copy_file(int from, int into, const std::string& path, std::int64_t bytes,
                       const ExportOptions& options, ExportReport& report) {
  if (::ioctl(into, FICLONE, from) == 0) {
    report.cloned = true;
    return {};
  }
  for (std::int64_t done = 0; done < bytes;) {
    if (options.stop.stop_requested()) return cancelled("the export was stopped");
    loff_t source = done;
    const ssize_t n =
        ::copy_file_range(from, &source, into, nullptr,
                          static_cast<std::size_t>(std::min(kCopyBytes, bytes - done)), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return file_failure(path, "cannot copy the checkpoint's bytes to");
    done += n;
    if (options.progress) options.progress(done, bytes);
  }
  return {};
}

// Where a layer's rows lie in a checkpoint's files.
struct LayerPlace {
  const SafetensorsFile* codes_file = nullptr;
  const SafetensorsFile* scales_file = nullptr;  // nullptr: the codec has none per row
  std::int64_t codes_offset_bytes = 0;
  std::int64_t scales_offset_bytes = 0;
};

Result<std::vector<LayerPlace>> find_layers(const Checkpoint& checkpoint,
                                            const EngramLayout& layout, const RowFormat& format) {
  std::vector<LayerPlace> places;
  for (const EngramLayer& layer : layout.layers) {
    const std::string prefix = table_prefix(checkpoint, layer.layer_id);
    LayerPlace place;
    place.codes_file = checkpoint.file_of(prefix + ".weight");
    if (place.codes_file == nullptr) {
      return not_found("tensor " + prefix + ".weight is not in the checkpoint");
    }
    place.codes_offset_bytes = place.codes_file->find(prefix + ".weight")->begin_bytes;
    if (format.scales_bytes() > 0) {
      place.scales_file = checkpoint.file_of(prefix + ".scale");
      if (place.scales_file == nullptr) {
        return not_found("tensor " + prefix + ".scale is not in the checkpoint");
      }
      place.scales_offset_bytes = place.scales_file->find(prefix + ".scale")->begin_bytes;
    }
    places.push_back(place);
  }
  return places;
}

Result<void> patch_file(int descriptor, const std::string& path, const SafetensorsFile* file,
                        const std::vector<LayerPlace>& places, const RowFormat& format,
                        const std::vector<PatchedRow>& rows) {
  const std::int64_t codes_bytes = format.codes_bytes();
  const std::int64_t scales_bytes = format.scales_bytes();
  for (const PatchedRow& row : rows) {
    const LayerPlace& place = places[static_cast<std::size_t>(row.layer)];
    if (place.codes_file == file) {
      auto done = write_at(descriptor, path, row.image, codes_bytes,
                           place.codes_offset_bytes + row.row * codes_bytes);
      if (!done) return done;
    }
    if (place.scales_file == file) {
      auto done = write_at(descriptor, path, row.image + codes_bytes, scales_bytes,
                           place.scales_offset_bytes + row.row * scales_bytes);
      if (!done) return done;
    }
  }
  return {};
}

Result<void> sync_folder(const std::string& folder) {
  const Descriptor descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() < 0 || ::fsync(descriptor.get()) != 0) {
    return file_failure(folder, "cannot sync");
  }
  return {};
}

Result<void> export_file(const SafetensorsFile& file, const std::vector<LayerPlace>& places,
                         const RowFormat& format, const std::vector<PatchedRow>& rows,
                         const std::string& folder, const ExportOptions& options,
                         ExportReport& report) {
  const std::string path =
      (std::filesystem::path(folder) / std::filesystem::path(file.path()).filename()).string();
  if (::access(path.c_str(), F_OK) == 0) {
    return invalid_argument(path + " exists already: name another folder, or remove it");
  }
  const std::string partial = path + ".partial";
  const auto source = RegularFile::open(file.path());
  if (!source) return source.error();
  const Descriptor into(
      ::open(partial.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (into.get() < 0) return file_failure(partial, "cannot make");
  auto done =
      copy_file(source->descriptor(), into.get(), partial, source->bytes(), options, report);
  if (done) done = patch_file(into.get(), partial, &file, places, format, rows);
  if (done && ::fsync(into.get()) != 0) done = file_failure(partial, "cannot sync");
  if (done && ::rename(partial.c_str(), path.c_str()) != 0) {
    done = file_failure(path, "cannot rename the finished file to");
  }
  if (done) done = sync_folder(folder);
  if (!done) {
    ::unlink(partial.c_str());
    return done;
  }
  report.files.push_back(path);
  return {};
}

// One layer's edits of one scope, in the order of their targets.
struct OverlaySection {
  std::vector<std::int64_t> ids;      // rows, or the bits of mixes
  std::vector<std::int32_t> columns;  // N-grams only
  std::vector<std::uint8_t> images;   // [ids.size(), row_bytes]
};

std::string section_name(int layer, EditScope scope) {
  return "layer" + std::to_string(layer) + (scope == EditScope::kRow ? ".row" : ".ngram");
}

std::span<const std::byte> bytes_of(const auto& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace

Result<ExportReport> export_shards(const std::string& model_folder, const EngramLayout& layout,
                                   const TableView& view, const std::string& folder,
                                   const ExportOptions& options) {
  if (view.base->file) {
    return invalid_argument(
        "this model serves a row file (engram.table.path), which has no checkpoint shards of its "
        "own: fold it instead, or export from the model's own table");
  }
  const auto checkpoint = Checkpoint::open(model_folder);
  if (!checkpoint) return checkpoint.error();
  const RowFormat format = view.base->format(0);
  const auto places = find_layers(*checkpoint, layout, format);
  if (!places) return places.error();
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) return environment_error(folder + ": cannot make the folder: " + code.message());
  ExportReport report;
  const auto rows = patched_rows(layout, view, options.ngrams_as_rows, report);
  std::vector<const SafetensorsFile*> files;
  for (const LayerPlace& place : *places) {
    for (const SafetensorsFile* file : {place.codes_file, place.scales_file}) {
      if (file == nullptr || std::find(files.begin(), files.end(), file) != files.end()) continue;
      files.push_back(file);
      if (auto done = export_file(*file, *places, format, rows, folder, options, report); !done) {
        return done.error();
      }
    }
  }
  return report;
}

Result<ExportReport> export_overlay(const EngramLayout& layout, const TableView& view,
                                    const std::string& path) {
  ExportReport report;
  std::map<EditTarget, const std::uint8_t*> edits;  // ascending, as an import needs them
  overlay_of(view).for_each([&](const EditTarget& target, const RowEdit& edit) {
    edits.emplace(target, edit.image);
    (target.scope == EditScope::kRow ? report.n_rows : report.n_ngrams) += 1;
  });
  report.n_ngrams_carried = report.n_ngrams;
  std::map<std::string, OverlaySection> sections;
  const std::int64_t row_bytes = view.base->format(0).row_bytes();
  for (const auto& [target, image] : edits) {
    OverlaySection& section = sections[section_name(target.layer, target.scope)];
    section.ids.push_back(target.id);
    if (target.scope == EditScope::kNgram) section.columns.push_back(target.column);
    section.images.insert(section.images.end(), image, image + row_bytes);
  }
  std::vector<TensorSpec> specs;
  std::map<std::string, std::span<const std::byte>> data;
  for (const auto& [name, section] : sections) {
    const auto n = static_cast<std::int64_t>(section.ids.size());
    specs.push_back({name + ".id", "I64", {n}});
    specs.push_back({name + ".image", "U8", {n, row_bytes}});
    data[name + ".id"] = bytes_of(section.ids);
    data[name + ".image"] = bytes_of(section.images);
    if (section.columns.empty()) continue;
    specs.push_back({name + ".column", "I32", {n}});
    data[name + ".column"] = bytes_of(section.columns);
  }
  const TableIdentity& identity = view.base->identity;
  auto writer = SafetensorsWriter::create(path, std::move(specs),
                                          {{"format", kOverlayFormat},
                                           {"layout_sha256", layout_sha256(layout)},
                                           {"token_map_sha256", identity.token_map_hash},
                                           {"base_content", identity.base_content},
                                           {"codec", name_of(view.base->format(0).codec)},
                                           {"transaction", std::to_string(view.edits->number())}});
  if (!writer) return writer.error();
  for (const TensorInfo& tensor : writer->tensors()) {
    if (auto done = writer->append(data.at(tensor.name)); !done) return done.error();
  }
  if (auto done = writer->finish(); !done) return done.error();
  report.files.push_back(path);
  return report;
}

namespace {

Result<void> check_overlay(const SafetensorsFile& file, const TableIdentity& identity,
                           const RowFormat& format) {
  const std::pair<const char*, std::string> expected[] = {
      {"format", kOverlayFormat},
      {"layout_sha256", identity.layout_hash},
      {"token_map_sha256", identity.token_map_hash},
      {"codec", name_of(format.codec)},
  };
  const auto& metadata = file.header().metadata;
  for (const auto& [key, value] : expected) {
    const auto found = metadata.find(key);
    if (found != metadata.end() && found->second == value) continue;
    return invalid_argument(file.path() + " does not fit these tables: expected " + key + " " +
                            value + ", got " +
                            (found == metadata.end() ? std::string("none") : found->second));
  }
  return {};
}

struct SectionView {
  EditTarget target;  // layer and scope
  std::int64_t n = 0;
  const std::int64_t* ids = nullptr;
  const std::int32_t* columns = nullptr;
  const std::uint8_t* images = nullptr;
};

Result<std::vector<SectionView>> read_sections(const SafetensorsFile& file, int n_layers,
                                               std::int64_t row_bytes) {
  std::vector<SectionView> sections;
  for (int layer = 0; layer < n_layers; ++layer) {
    for (const EditScope scope : {EditScope::kRow, EditScope::kNgram}) {
      const std::string name = section_name(layer, scope);
      if (file.find(name + ".id") == nullptr) continue;
      const auto ids = file.tensor(name + ".id");
      const auto images = file.tensor(name + ".image");
      if (!ids) return ids.error();
      if (!images) return images.error();
      SectionView section{{layer, scope, -1, 0}, ids->n_elements()};
      const bool fits = ids->dtype == kernels::DType::kI64 &&
                        images->dtype == kernels::DType::kU8 &&
                        images->bytes() == section.n * row_bytes;
      if (!fits) {
        return invalid_argument(file.path() + ": " + name + ": expected I64 ids and as many U8 " +
                                "images of " + std::to_string(row_bytes) + " bytes");
      }
      section.ids = ids->as<std::int64_t>();
      section.images = images->as<std::uint8_t>();
      if (scope == EditScope::kNgram) {
        const auto columns = file.tensor(name + ".column");
        if (!columns) return columns.error();
        if (columns->dtype != kernels::DType::kI32 || columns->n_elements() != section.n) {
          return invalid_argument(file.path() + ": " + name + ".column: expected " +
                                  std::to_string(section.n) + " numbers of I32");
        }
        section.columns = columns->as<std::int32_t>();
      }
      sections.push_back(section);
    }
  }
  return sections;
}

}  // namespace

Result<Transaction> import_overlay(const std::string& path, const EngramLayout& layout,
                                   const TableIdentity& identity, const RowFormat& format,
                                   TableStore& store, const std::string& author,
                                   const std::string& reason, std::stop_token stop) {
  const auto file = SafetensorsFile::open(path);
  if (!file) return file.error();
  if (const auto fits = check_overlay(*file, identity, format); !fits) return fits.error();
  const std::int64_t row_bytes = format.row_bytes();
  const auto sections = read_sections(*file, static_cast<int>(layout.layers.size()), row_bytes);
  if (!sections) return sections.error();
  std::size_t at = 0;
  std::int64_t i = 0;
  const auto next = [&](Edit& edit) -> Result<bool> {
    while (at < sections->size() && i == (*sections)[at].n) {
      ++at;
      i = 0;
    }
    if (at == sections->size()) return false;
    const SectionView& section = (*sections)[at];
    edit = Edit{};
    edit.target = section.target;
    edit.target.id = section.ids[i];
    if (section.columns != nullptr) edit.target.column = section.columns[i];
    edit.operation = EditOperation::kImage;
    const std::uint8_t* image = section.images + i * row_bytes;
    edit.image.assign(image, image + row_bytes);
    ++i;
    return true;
  };
  return store.import(next, author, reason, std::move(stop));
}

namespace {

// The base with its patched rows.
class FoldedContent final : public TableContent {
 public:
  FoldedContent(const TableView& view, std::vector<PatchedRow> rows)
      : view_(view), rows_(std::move(rows)) {}

  Result<void> rows(int layer, std::int64_t first, std::int64_t count,
                    std::uint8_t* images) override {
    std::vector<std::int64_t> wanted(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) wanted[static_cast<std::size_t>(i)] = first + i;
    RowSource& base = *view_.base->layers[static_cast<std::size_t>(layer)];
    if (auto read = base.read(wanted, images, {}); !read) return read;
    const auto row_bytes = static_cast<std::size_t>(base.format().row_bytes());
    auto row = std::lower_bound(rows_.begin(), rows_.end(), std::pair(layer, first),
                                [](const PatchedRow& a, const std::pair<int, std::int64_t>& b) {
                                  return std::pair(a.layer, a.row) < b;
                                });
    for (; row != rows_.end() && row->layer == layer && row->row < first + count; ++row) {
      std::memcpy(images + static_cast<std::size_t>(row->row - first) * row_bytes, row->image,
                  row_bytes);
    }
    return {};
  }
  Result<void> owner_tags(int layer, std::int64_t first, std::span<std::uint16_t> tags) override {
    const std::uint16_t* owners = view_.base->owners[static_cast<std::size_t>(layer)] + first;
    std::copy(owners, owners + tags.size(), tags.begin());
    return {};
  }
  std::string identity() const override {
    std::string text = "fold of " + view_.base->identity.base_content + " generation " +
                       std::to_string(view_.base->identity.base_generation) + "\n";
    for (const PatchedRow& row : rows_) {
      text += std::to_string(row.layer) + " " + std::to_string(row.row) + " " +
              std::to_string(row.transaction) + "\n";
    }
    return "fold " + sha256_hex(text);
  }

 private:
  const TableView& view_;
  const std::vector<PatchedRow> rows_;
};

// The edits that the folded file does not hold.
Result<void> carry_ngrams(const EngramLayout& layout, const TableView& view,
                          const TableHeader& header, const std::string& path,
                          ExportReport& report) {
  std::map<EditTarget, const std::uint8_t*> edits;
  overlay_of(view).for_each([&](const EditTarget& target, const RowEdit& edit) {
    if (target.scope == EditScope::kNgram) edits.emplace(target, edit.image);
  });
  if (edits.empty()) return {};
  LiveTablesOptions options;
  options.row_file = path;
  auto folded = LiveTables::open(layout, header.token_map_sha256, {}, options);
  if (!folded) return folded.error();
  const auto store = (*folded)->store();
  if (!store) return store.error();
  const auto row_bytes = view.base->format(0).row_bytes();
  auto next_edit = edits.begin();
  const auto done = (*store)->import(
      [&](Edit& edit) -> Result<bool> {
        if (next_edit == edits.end()) return false;
        edit = Edit{};
        edit.target = next_edit->first;
        edit.operation = EditOperation::kImage;
        edit.image.assign(next_edit->second, next_edit->second + row_bytes);
        ++next_edit;
        return true;
      },
      "engramd fold",
      "edits of exact N-grams in effect after transaction " + std::to_string(view.edits->number()) +
          " of the base before");
  if (!done) return done.error();
  report.n_ngrams_carried = static_cast<std::int64_t>(edits.size());
  report.files.push_back((*folded)->edits_file());
  return {};
}

}  // namespace

Result<ExportReport> fold_table(const EngramLayout& layout, const TableView& view,
                                const std::string& path, const ExportOptions& options) {
  ExportReport report;
  auto rows = patched_rows(layout, view, options.ngrams_as_rows, report);
  const bool has_owners = std::all_of(view.base->owners.begin(), view.base->owners.end(),
                                      [](const std::uint16_t* owner) { return owner != nullptr; });
  auto header = make_table_header(
      layout, view.base->format(0), has_owners, view.base->identity.token_map_hash,
      static_cast<std::uint64_t>(view.base->identity.base_generation) + 1);
  if (!header) return header.error();
  FoldedContent content(view, std::move(rows));
  TableWriteOptions write;
  write.stop = options.stop;
  if (options.progress) {
    write.progress = [&](const TableProgress& progress) {
      options.progress(progress.pages_done * kTablePageBytes,
                       progress.pages_total * kTablePageBytes);
    };
  }
  if (auto written = write_table(path, *header, content, write); !written) return written.error();
  report.files.push_back(path);
  if (options.ngrams_as_rows) return report;
  if (auto carried = carry_ngrams(layout, view, *header, path, report); !carried) {
    return carried.error();
  }
  return report;
}

}  // namespace engramd::engine
