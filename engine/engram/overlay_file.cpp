#include "engine/engram/overlay_file.h"

#include <span>
#include <utility>

#include "engine/checkpoint/safetensors_writer.h"

namespace engramd::engine {
namespace {

constexpr char kFormat[] = "engramd overlay 1";

// One layer's edits of one scope, in the order of their targets.
struct WrittenSection {
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

Result<void> check_metadata(const OverlayFile& file, const std::string& path,
                            const TableIdentity& identity, const RowFormat& format) {
  const std::pair<const char*, std::string> expected[] = {
      {"format", kFormat},
      {"layout_sha256", identity.layout_hash},
      {"token_map_sha256", identity.token_map_hash},
      {"codec", name_of(format.codec)},
  };
  for (const auto& [key, value] : expected) {
    const auto found = file.metadata().find(key);
    if (found != file.metadata().end() && found->second == value) continue;
    return invalid_argument(path + " does not fit these tables: expected " + key + " " + value +
                            ", got " +
                            (found == file.metadata().end() ? std::string("none") : found->second));
  }
  return {};
}

}  // namespace

Result<OverlayFile> OverlayFile::open(const std::string& path, int n_layers,
                                      std::int64_t row_bytes) {
  auto file = SafetensorsFile::open(path);
  if (!file) return file.error();
  OverlayFile overlay(std::move(*file), row_bytes);
  for (int layer = 0; layer < n_layers; ++layer) {
    for (const EditScope scope : {EditScope::kRow, EditScope::kNgram}) {
      if (auto added = overlay.add_section(layer, scope); !added) return added.error();
    }
  }
  return overlay;
}

Result<void> OverlayFile::add_section(int layer, EditScope scope) {
  const std::string name = section_name(layer, scope);
  if (file_.find(name + ".id") == nullptr) return {};
  const auto ids = file_.tensor(name + ".id");
  if (!ids) return ids.error();
  const auto images = file_.tensor(name + ".image");
  if (!images) return images.error();
  Section section{{layer, scope, -1, 0}, ids->n_elements()};
  if (ids->dtype != kernels::DType::kI64 || images->dtype != kernels::DType::kU8 ||
      images->bytes() / row_bytes_ != section.n || images->bytes() % row_bytes_ != 0) {
    return invalid_argument(file_.path() + ": " + name + ": expected I64 ids and as many U8 " +
                            "images of " + std::to_string(row_bytes_) + " bytes");
  }
  section.ids = ids->as<std::int64_t>();
  section.images = images->as<std::uint8_t>();
  if (scope == EditScope::kNgram) {
    const auto columns = file_.tensor(name + ".column");
    if (!columns) return columns.error();
    if (columns->dtype != kernels::DType::kI32 || columns->n_elements() != section.n) {
      return invalid_argument(file_.path() + ": " + name + ".column: expected " +
                              std::to_string(section.n) + " numbers of I32");
    }
    section.columns = columns->as<std::int32_t>();
  }
  sections_.push_back(section);
  return {};
}

std::int64_t OverlayFile::n_edits() const {
  std::int64_t n = 0;
  for (const Section& section : sections_) n += section.n;
  return n;
}

bool OverlayFile::Reader::next(Edit& edit) {
  while (section_ < file_->sections_.size() && index_ == file_->sections_[section_].n) {
    ++section_;
    index_ = 0;
  }
  if (section_ == file_->sections_.size()) return false;
  const Section& section = file_->sections_[section_];
  edit = Edit{};
  edit.target = section.target;
  edit.target.id = section.ids[index_];
  if (section.columns != nullptr) edit.target.column = section.columns[index_];
  edit.operation = EditOperation::kImage;
  const std::uint8_t* image = section.images + index_ * file_->row_bytes_;
  edit.image.assign(image, image + file_->row_bytes_);
  ++index_;
  return true;
}

Result<OverlayCounts> write_overlay_file(const EngramLayout& layout, const TableView& view,
                                         const std::string& path) {
  OverlayCounts counts;
  std::map<EditTarget, const std::uint8_t*> edits;  // ascending, as an import needs them
  view.overlay().for_each([&](const EditTarget& target, const RowEdit& edit) {
    edits.emplace(target, edit.image);
    (target.scope == EditScope::kRow ? counts.n_rows : counts.n_ngrams) += 1;
  });
  std::map<std::string, WrittenSection> sections;
  const std::int64_t row_bytes = view.base->format(0).row_bytes();
  for (const auto& [target, image] : edits) {
    WrittenSection& section = sections[section_name(target.layer, target.scope)];
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
                                          {{"format", kFormat},
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
  return counts;
}

Result<Transaction> import_overlay_file(const std::string& path, const EngramLayout& layout,
                                        const BaseTables& base, TableStore& store,
                                        const std::string& author, const std::string& reason,
                                        std::stop_token stop) {
  const RowFormat format = base.format(0);
  const auto file =
      OverlayFile::open(path, static_cast<int>(layout.layers.size()), format.row_bytes());
  if (!file) return file.error();
  if (auto fits = check_metadata(*file, path, base.identity, format); !fits) return fits.error();
  OverlayFile::Reader reader(*file);
  const auto next = [&reader](Edit& edit) -> Result<bool> { return reader.next(edit); };
  return store.import(next, author, reason, std::move(stop));
}

}  // namespace engramd::engine
