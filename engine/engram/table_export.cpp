#include "engine/engram/table_export.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <system_error>
#include <tuple>
#include <utility>

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/engram/addresser.h"
#include "engine/engram/partial_file.h"
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

// The file's bytes behind its first page, from where an earlier run came to.
Result<void> copy_pages(int from, PartialFile& into, const std::string& path, std::int64_t bytes,
                        const ExportOptions& options, ExportReport& report) {
  std::int64_t done = std::max(into.pages_done() * kTablePageBytes, kTablePageBytes);
  if (into.pages_done() > 0) report.resumed_bytes += done;
  std::int64_t recorded = done;
  while (done < bytes) {
    if (options.stop.stop_requested()) {
      if (auto kept = into.record(done / kTablePageBytes); !kept) return kept;
      return cancelled("the export was stopped; start the same command again: it continues");
    }
    loff_t source = done;
    loff_t target = done;
    const std::int64_t n_wanted = std::min({kCopyBytes, options.sync_bytes, bytes - done});
    const ssize_t n = ::copy_file_range(from, &source, into.descriptor(), &target,
                                        static_cast<std::size_t>(n_wanted), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return file_failure(path, "cannot copy the checkpoint's bytes to");
    done += n;
    if (done - recorded >= options.sync_bytes) {
      recorded = done;
      if (auto kept = into.record(done / kTablePageBytes); !kept) return kept;
    }
    if (options.progress) options.progress(done, bytes);
  }
  return {};
}

// The file's bytes, by sharing its blocks where the file system can.
Result<void> copy_file(int from, PartialFile& into, const std::string& path, std::int64_t bytes,
                       const ExportOptions& options, ExportReport& report) {
  if (::ioctl(into.descriptor(), FICLONE, from) == 0) {
    report.cloned = true;
    return {};
  }
  if (auto copied = copy_pages(from, into, path, bytes, options, report); !copied) return copied;
  std::vector<std::uint8_t> page(
      static_cast<std::size_t>(std::min<std::int64_t>(bytes, kTablePageBytes)));
  const ssize_t n = ::pread(from, page.data(), page.size(), 0);
  if (n != static_cast<ssize_t>(page.size()))
    return file_failure(path, "cannot copy the header to");
  return into.write(0, page.data(), page.size());
}

// Tells one set of edits from another.
std::string list_of(const std::vector<PatchedRow>& rows) {
  std::string text;
  for (const PatchedRow& row : rows) {
    text += std::to_string(row.layer) + " " + std::to_string(row.row) + " " +
            std::to_string(row.transaction) + "\n";
  }
  return text;
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

Result<void> patch_file(PartialFile& into, const SafetensorsFile* file,
                        const std::vector<LayerPlace>& places, const RowFormat& format,
                        const std::vector<PatchedRow>& rows) {
  const std::int64_t codes_bytes = format.codes_bytes();
  const std::int64_t scales_bytes = format.scales_bytes();
  for (const PatchedRow& row : rows) {
    const LayerPlace& place = places[static_cast<std::size_t>(row.layer)];
    if (place.codes_file == file) {
      auto done = into.write(place.codes_offset_bytes + row.row * codes_bytes, row.image,
                             static_cast<std::size_t>(codes_bytes));
      if (!done) return done;
    }
    if (place.scales_file == file) {
      auto done = into.write(place.scales_offset_bytes + row.row * scales_bytes,
                             row.image + codes_bytes, static_cast<std::size_t>(scales_bytes));
      if (!done) return done;
    }
  }
  return {};
}

// What the partial file of the same export is recognised by.
std::string job_of(const SafetensorsFile& file, const struct stat& status, const TableView& view,
                   const std::vector<PatchedRow>& rows) {
  std::string text = "export of " + file.path() + ", " + std::to_string(status.st_size) +
                     " bytes of " + std::to_string(status.st_mtim.tv_sec) + "." +
                     std::to_string(status.st_mtim.tv_nsec) + ", " +
                     view.base->identity.base_content + "\n";
  return sha256_hex(text + list_of(rows));
}

Result<void> export_file(const SafetensorsFile& file, const std::vector<LayerPlace>& places,
                         const TableView& view, const std::vector<PatchedRow>& rows,
                         const std::string& folder, const ExportOptions& options,
                         ExportReport& report) {
  const std::string path =
      (std::filesystem::path(folder) / std::filesystem::path(file.path()).filename()).string();
  if (::access(path.c_str(), F_OK) == 0) {
    return invalid_argument(path + " exists already: name another folder, or remove it");
  }
  const auto source = RegularFile::open(file.path());
  if (!source) return source.error();
  struct stat status {};
  if (::fstat(source->descriptor(), &status) != 0) return file_failure(file.path(), "cannot stat");
  const std::string partial = path + ".partial";
  auto into = PartialFile::open(partial, job_of(file, status, view, rows), source->bytes());
  if (!into) return into.error();
  auto done = copy_file(source->descriptor(), *into, partial, source->bytes(), options, report);
  if (done) done = patch_file(*into, &file, places, view.base->format(0), rows);
  if (done) done = into->sync();
  if (done) done = into->rename_to(path);
  if (!done) return done;
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
      if (auto done = export_file(*file, *places, view, rows, folder, options, report); !done) {
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
    return "fold " + sha256_hex(text + list_of(rows_));
  }

 private:
  const TableView& view_;
  const std::vector<PatchedRow> rows_;
};

// The edits that the folded file does not hold. The edit file is made in any case: that it is gone
// later can be told from that there was nothing in it.
Result<void> carry_ngrams(const EngramLayout& layout, const TableView& view,
                          const ExportOptions& how, const TableHeader& header,
                          const std::string& path, ExportReport& report) {
  std::map<EditTarget, const std::uint8_t*> edits;
  view.overlay().for_each([&](const EditTarget& target, const RowEdit& edit) {
    if (target.scope == EditScope::kNgram && !how.ngrams_as_rows) edits.emplace(target, edit.image);
  });
  LiveTablesOptions options;
  options.row_file = path;
  options.open.prefetch = false;
  auto folded = LiveTables::open(layout, header.token_map_sha256, {}, options);
  if (!folded) return folded.error();
  const auto store = (*folded)->store();
  if (!store) return store.error();
  report.files.push_back((*folded)->edits_file());
  if (edits.empty()) return {};
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
  return {};
}

}  // namespace

Result<ExportReport> fold_table(const EngramLayout& layout, const TableView& view,
                                const std::string& path, const ExportOptions& options) {
  for (const std::string& made : {path, path + ".edits"}) {
    if (::access(made.c_str(), F_OK) != 0) continue;
    return invalid_argument(made +
                            " exists already: name another file, or remove it when nothing "
                            "serves it");
  }
  ExportReport report;
  auto rows = patched_rows(layout, view, options.ngrams_as_rows, report);
  auto header = header_of(layout, *view.base);
  if (!header) return header.error();
  FoldedContent content(view, std::move(rows));
  TableWriteOptions write;
  write.stop = options.stop;
  write.sync_bytes = options.sync_bytes;
  write.progress = [&](const TableProgress& progress) {
    report.resumed_bytes = progress.pages_resumed * kTablePageBytes;
    if (!options.progress) return;
    options.progress(progress.pages_done * kTablePageBytes, progress.pages_total * kTablePageBytes);
  };
  if (auto written = write_table(path, *header, content, write); !written) return written.error();
  report.files.push_back(path);
  if (auto carried = carry_ngrams(layout, view, options, *header, path, report); !carried) {
    return carried.error();
  }
  // SQLite syncs what it writes, but not the new file's name.
  if (auto synced = sync_folder_of(path + ".edits"); !synced) return synced.error();
  return report;
}

Result<ExportReport> fold_and_switch(LiveTables& tables, const std::string& path,
                                     const std::string& author, const ExportOptions& options) {
  std::error_code code;  // a later process may run elsewhere
  const std::string file = std::filesystem::absolute(path, code).lexically_normal().string();
  if (code) return environment_error(path + ": cannot be found: " + code.message());
  ExportReport report;
  const auto make = [&](const TableView& view) -> Result<bool> {
    auto folded = fold_table(tables.layout(), view, file, options);
    if (!folded) return folded.error();
    report = std::move(*folded);
    return !options.ngrams_as_rows || report.n_ngrams == 0;
  };
  if (auto moved = tables.move_on(file, make, author); !moved) return moved.error();
  return report;
}

}  // namespace engramd::engine
