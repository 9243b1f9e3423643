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

#include "engine/engram/addresser.h"
#include "engine/engram/sha256.h"

namespace engramd::engine {
namespace {

constexpr std::int64_t kCopyBytes = 64 << 20;

struct PatchedRow {
  int layer = 0;
  std::int64_t row = 0;
  std::int64_t transaction = 0;
  const std::uint8_t* image = nullptr;  // lives as long as the view
};

// What a plain table can carry: one image per row, ascending.
std::vector<PatchedRow> patched_rows(const EngramLayout& layout, const TableView& view,
                                     bool ngrams_as_rows, ExportReport& report) {
  std::vector<PatchedRow> rows;
  view.overlay().for_each([&](const EditTarget& target, const RowEdit& edit) {
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

}  // namespace

Result<ExportReport> export_shards(const Checkpoint& checkpoint, const EngramLayout& layout,
                                   const TableView& view, const std::string& folder,
                                   const ExportOptions& options) {
  if (view.base->file) {
    return invalid_argument(
        "this model serves a row file (engram.table.path), which has no checkpoint shards of its "
        "own: fold it instead, or export from the model's own table");
  }
  const RowFormat format = view.base->format(0);
  const auto places = find_layers(checkpoint, layout, format);
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
  view.overlay().for_each([&](const EditTarget& target, const RowEdit& edit) {
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
