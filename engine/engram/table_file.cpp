#include "engine/engram/table_file.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>

#include <unistd.h>

#include "engine/engram/crc32c.h"
#include "engine/engram/hex.h"
#include "engine/engram/sha256.h"

namespace engramd::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "row files are little-endian");

constexpr char kMagic[] = "ENGRAMDT";
constexpr std::size_t kMagicBytes = 8;
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kEndianness = 0x01020304;
constexpr std::size_t kHeaderBytesOffset = 16;
constexpr std::size_t kHeaderPrefixBytes = 20;  // magic, version, endianness, header bytes
constexpr std::int64_t kHeaderBytesMax = 1 << 20;
constexpr std::uint32_t kFlagOwnerTags = 1;

constexpr std::int64_t kLayersMax = 64;
constexpr std::int64_t kLayerIdMax = 1 << 20;  // as make_layout
constexpr std::int64_t kRowsMax = std::int64_t{1} << 40;
constexpr std::int64_t kTokenIdMax = std::int64_t{1} << 31;
constexpr std::uint32_t kVariantsMax = static_cast<std::uint32_t>(EngramVariant::kPeft);
constexpr std::uint32_t kCodecsMax = static_cast<std::uint32_t>(RowCodec::kI8Scale);
constexpr std::size_t kHashBytes = 32;

std::int64_t pages_for(std::int64_t bytes) {
  return (bytes + kTablePageBytes - 1) / kTablePageBytes;
}

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string bytes_of_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// The layout as the header stores it and as its hash covers it.
void put_layout(std::string& out, const EngramLayout& layout) {
  const EngramLayoutConfig& config = layout.config;
  put<std::uint32_t>(out, static_cast<std::uint32_t>(config.variant));
  put<std::uint32_t>(out, static_cast<std::uint32_t>(layout.layers.size()));
  put<std::uint32_t>(out, static_cast<std::uint32_t>(config.max_ngram_size));
  put<std::uint32_t>(out, static_cast<std::uint32_t>(config.n_heads));
  put<std::uint32_t>(out, static_cast<std::uint32_t>(config.head_dim));
  put<std::uint32_t>(out, 0);  // reserved
  put<std::int64_t>(out, config.hashed_vocab_size);
  put<std::int64_t>(out, config.pad_token_id);
  put<std::int64_t>(out, config.dead_token_id);
  put<std::int64_t>(out, config.eos_token_ids.empty() ? -1 : config.eos_token_ids.front());
  put<std::int64_t>(out, config.seed);
  for (const EngramLayer& layer : layout.layers) {
    put<std::int64_t>(out, layer.layer_id);
    for (const std::uint64_t multiplier : layer.multipliers) put(out, multiplier);
    for (const std::int64_t buckets : layer.primes) put(out, buckets);
  }
}

// Reads fields in order; past the end everything is zero and `ok` turns false.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  T next() {
    T value{};
    if (bytes_.size() - at_ < sizeof value) {
      ok_ = false;
      at_ = bytes_.size();
      return value;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string_view next_bytes(std::size_t n) {
    const std::string_view part = bytes_.substr(at_, n);
    ok_ = ok_ && part.size() == n;
    at_ += part.size();
    return part;
  }
  bool ok() const { return ok_; }
  std::string_view rest() const { return bytes_.substr(at_); }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
  bool ok_ = true;
};

Error bad_header(const std::string& what) {
  return invalid_argument("row file header: " + what +
                          "; the file is damaged: restore it, or write it again with `engramd "
                          "table import` or `table create`");
}

bool in_range(std::int64_t value, std::int64_t low, std::int64_t high) {
  return value >= low && value <= high;
}

Result<void> read_layer(FieldReader& fields, EngramLayout& layout) {
  EngramLayer layer;
  layer.oldest_first = layout.config.variant == EngramVariant::kPeft;
  layer.layer_id = fields.next<std::int64_t>();
  if (!in_range(layer.layer_id, 0, kLayerIdMax)) {
    return bad_header("layer id " + std::to_string(layer.layer_id) + " is out of range");
  }
  for (const EngramLayer& other : layout.layers) {
    if (other.layer_id == layer.layer_id) {
      return bad_header("layer " + std::to_string(layer.layer_id) + " stands twice");
    }
  }
  for (int i = 0; i < layout.config.max_ngram_size; ++i) {
    layer.multipliers.push_back(fields.next<std::uint64_t>());
  }
  for (int column = 0; column < layout.n_columns(); ++column) {
    const auto buckets = fields.next<std::int64_t>();
    if (!fields.ok() || !in_range(buckets, 1, kRowsMax) || layer.n_rows > kRowsMax - buckets) {
      return bad_header("bucket count of column " + std::to_string(column) + " is out of range");
    }
    layer.primes.push_back(buckets);
    layer.offsets.push_back(layer.n_rows);
    layer.n_rows += buckets;
  }
  layout.config.layer_ids.push_back(layer.layer_id);
  layout.config.multipliers.push_back(layer.multipliers);
  layout.layers.push_back(std::move(layer));
  return {};
}

Result<EngramLayout> read_layout(FieldReader& fields) {
  EngramLayout layout;
  EngramLayoutConfig& config = layout.config;
  const auto variant = fields.next<std::uint32_t>();
  const std::int64_t n_layers = fields.next<std::uint32_t>();
  const std::int64_t order = fields.next<std::uint32_t>();
  const std::int64_t heads = fields.next<std::uint32_t>();
  const std::int64_t head_dim = fields.next<std::uint32_t>();
  const auto reserved = fields.next<std::uint32_t>();
  if (variant > kVariantsMax) return bad_header("unknown variant " + std::to_string(variant));
  if (!in_range(n_layers, 1, kLayersMax)) {
    return bad_header("expected 1 .. 64 layers, got " + std::to_string(n_layers));
  }
  if (!in_range(order, 2, 16) || !in_range(heads, 1, 64) || !in_range(head_dim, 1, 65536)) {
    return bad_header("order, heads or head_dim out of range");
  }
  config.variant = static_cast<EngramVariant>(variant);
  config.max_ngram_size = static_cast<int>(order);
  config.n_heads = static_cast<int>(heads);
  config.head_dim = static_cast<int>(head_dim);
  config.hashed_vocab_size = fields.next<std::int64_t>();
  config.pad_token_id = fields.next<std::int64_t>();
  config.dead_token_id = fields.next<std::int64_t>();
  const auto cut = fields.next<std::int64_t>();
  config.seed = fields.next<std::int64_t>();
  if (reserved != 0 || !in_range(config.hashed_vocab_size, 1, kTokenIdMax) ||
      !in_range(config.pad_token_id, 0, kTokenIdMax) ||
      !in_range(config.dead_token_id, -1, kTokenIdMax) || !in_range(cut, -1, kTokenIdMax) ||
      (cut < 0 && config.variant == EngramVariant::kQwen4Exp)) {
    return bad_header("vocabulary size or token ids out of range");
  }
  if (cut >= 0) config.eos_token_ids = {cut};
  for (std::int64_t i = 0; i < n_layers; ++i) {
    if (const auto layer = read_layer(fields, layout); !layer) return layer.error();
  }
  return layout;
}

// Magic to header size, and the checksum over all of it.
Result<std::string_view> check_envelope(std::string_view head, std::int64_t file_bytes) {
  if (head.size() < kHeaderPrefixBytes || head.substr(0, kMagicBytes) != kMagic) {
    return invalid_argument(
        "expected engramd's row file (magic ENGRAMDT), got something else: convert a model folder "
        "with `engramd table import FOLDER FILE`");
  }
  FieldReader fields(head.substr(kMagicBytes));
  const auto version = fields.next<std::uint32_t>();
  const auto endianness = fields.next<std::uint32_t>();
  const std::int64_t header_bytes = fields.next<std::uint32_t>();
  if (endianness != kEndianness) return bad_header("the byte order marker is wrong");
  if (version != kVersion) {
    return invalid_argument("row file version: expected 1, got " + std::to_string(version) +
                            ": use the engramd that wrote it, or import the table again");
  }
  if (header_bytes < kTablePageBytes || header_bytes > kHeaderBytesMax ||
      header_bytes % kTablePageBytes != 0) {
    return bad_header("expected 4096 .. 1048576 bytes in whole pages, got " +
                      std::to_string(header_bytes));
  }
  if (header_bytes > file_bytes || header_bytes > static_cast<std::int64_t>(head.size())) {
    return bad_header("the file ends within it");
  }
  head = head.substr(0, static_cast<std::size_t>(header_bytes));
  std::uint32_t stored = 0;
  std::memcpy(&stored, head.data() + head.size() - sizeof stored, sizeof stored);
  if (crc32c(head.data(), head.size() - sizeof stored) != stored) {
    return bad_header("its checksum does not fit");
  }
  return head;
}

Result<void> check_geometry(FieldReader& fields, const TableHeader& header,
                            std::int64_t file_bytes) {
  bool same = fields.next<std::int64_t>() == header.row_bytes();
  same = fields.next<std::int64_t>() == header.rows_per_page && same;
  same = fields.next<std::int64_t>() == header.checksums_offset_bytes && same;
  same = fields.next<std::int64_t>() == header.file_bytes && same;
  for (const TableSection& section : header.sections) {
    same = fields.next<std::int64_t>() == section.n_rows && same;
    same = fields.next<std::int64_t>() == section.data_offset_bytes && same;
    same = fields.next<std::int64_t>() == section.owner_offset_bytes && same;
  }
  if (!same || !fields.ok()) return bad_header("sizes and offsets contradict the layout");
  const std::string_view padding = fields.rest().substr(0, fields.rest().size() - 4);
  if (padding.find_first_not_of('\0') != std::string_view::npos) {
    return bad_header("bytes that should be zero are not");
  }
  if (header.file_bytes == file_bytes) return {};
  return invalid_argument("row file: expected " + std::to_string(header.file_bytes) +
                          " bytes, got " + std::to_string(file_bytes) +
                          (file_bytes < header.file_bytes
                               ? ": it was cut: copy or import it again"
                               : ": something was appended: copy or import it again"));
}

}  // namespace

std::int64_t TableHeader::n_rows() const {
  std::int64_t n = 0;
  for (const TableSection& section : sections) n += section.n_rows;
  return n;
}

std::int64_t TableHeader::n_data_pages() const {
  std::int64_t n = 0;
  for (const TableSection& section : sections) n += section.n_data_pages;
  return n;
}

Result<TableHeader> make_table_header(EngramLayout layout, RowFormat format, bool has_owner_tags,
                                      std::string token_map_sha256, std::uint64_t generation) {
  TableHeader header;
  format.n_columns = layout.config.head_dim;
  header.format = format;
  const std::int64_t row_bytes = header.row_bytes();
  if (row_bytes > kTablePageBytes) {
    return invalid_argument("a row of " + std::to_string(row_bytes) +
                            " bytes does not fit a page of 4096: choose fewer columns "
                            "(engram.embed_dim) or a smaller dtype");
  }
  header.rows_per_page = kTablePageBytes / row_bytes;
  std::string probe;  // what the layout takes
  put_layout(probe, layout);
  const auto n_layers = static_cast<std::int64_t>(layout.layers.size());
  constexpr std::int64_t kOtherFieldsBytes = 256;  // prefix, format, hashes, totals, checksum
  header.header_bytes =
      pages_for(kOtherFieldsBytes + static_cast<std::int64_t>(probe.size()) + 24 * n_layers) *
      kTablePageBytes;
  std::int64_t offset_bytes = header.header_bytes;
  for (const EngramLayer& layer : layout.layers) {
    if (layer.n_rows > kRowsMax) {
      return limit_exceeded("a layer of " + std::to_string(layer.n_rows) +
                            " rows: at most 2^40 are possible; use fewer hash_buckets");
    }
    TableSection section;
    section.n_rows = layer.n_rows;
    section.data_offset_bytes = offset_bytes;
    section.n_data_pages = (layer.n_rows + header.rows_per_page - 1) / header.rows_per_page;
    offset_bytes += section.n_data_pages * kTablePageBytes;
    if (has_owner_tags) {
      section.owner_offset_bytes = offset_bytes;
      section.n_owner_pages = pages_for(layer.n_rows * 2);
      offset_bytes += section.n_owner_pages * kTablePageBytes;
    }
    header.sections.push_back(section);
  }
  header.checksums_offset_bytes = offset_bytes;
  header.file_bytes = offset_bytes + pages_for(header.n_pages() * 4) * kTablePageBytes;
  header.layout = std::move(layout);
  header.has_owner_tags = has_owner_tags;
  header.token_map_sha256 = std::move(token_map_sha256);
  header.generation = generation;
  return header;
}

Result<EngramLayout> make_bucket_layout(EngramLayoutConfig config, std::int64_t buckets) {
  if (!in_range(buckets, 1, kRowsMax)) {
    return invalid_argument("hash_buckets: expected 1 .. 2^40, got " + std::to_string(buckets));
  }
  // A small prime search stands in for the sizes, so that all other ranges are checked in one
  // place.
  config.variant = EngramVariant::kDemo;
  config.vocab_size.assign(static_cast<std::size_t>(std::clamp(config.max_ngram_size, 2, 16) - 1),
                           2);
  config.multipliers.clear();
  config.primes.clear();
  auto layout = make_layout(std::move(config));
  if (!layout) return layout.error();
  for (EngramLayer& layer : layout->layers) {
    layer.n_rows = 0;
    for (std::size_t column = 0; column < layer.primes.size(); ++column) {
      layer.primes[column] = buckets;
      layer.offsets[column] = layer.n_rows;
      layer.n_rows += buckets;
    }
  }
  layout->config.vocab_size.assign(static_cast<std::size_t>(layout->n_orders()), buckets);
  return layout;
}

std::string serialize_table_header(const TableHeader& header) {
  std::string out(kMagic, kMagicBytes);
  put(out, kVersion);
  put(out, kEndianness);
  put<std::uint32_t>(out, static_cast<std::uint32_t>(header.header_bytes));
  put<std::uint32_t>(out, static_cast<std::uint32_t>(header.format.codec));
  put<float>(out, header.format.tensor_scale);
  put<std::uint32_t>(out, header.has_owner_tags ? kFlagOwnerTags : 0);
  put<std::uint64_t>(out, header.generation);
  put<std::uint32_t>(out, header.content_crc32c);
  out += bytes_of_hex(header.token_map_sha256);
  out += bytes_of_hex(layout_sha256(header.layout));
  put_layout(out, header.layout);
  put<std::int64_t>(out, header.row_bytes());
  put<std::int64_t>(out, header.rows_per_page);
  put<std::int64_t>(out, header.checksums_offset_bytes);
  put<std::int64_t>(out, header.file_bytes);
  for (const TableSection& section : header.sections) {
    put<std::int64_t>(out, section.n_rows);
    put<std::int64_t>(out, section.data_offset_bytes);
    put<std::int64_t>(out, section.owner_offset_bytes);
  }
  const auto header_bytes = static_cast<std::size_t>(header.header_bytes);
  ENGRAMD_ASSERT(out.size() + 4 <= header_bytes);
  out.resize(header_bytes - 4, '\0');
  put<std::uint32_t>(out, crc32c(out.data(), out.size()));
  return out;
}

Result<TableHeader> parse_table_header(std::string_view head, std::int64_t file_bytes) {
  const auto envelope = check_envelope(head, file_bytes);
  if (!envelope) return envelope.error();
  FieldReader fields(envelope->substr(kHeaderPrefixBytes));
  const auto codec = fields.next<std::uint32_t>();
  RowFormat format;
  format.tensor_scale = fields.next<float>();
  const auto flags = fields.next<std::uint32_t>();
  const auto generation = fields.next<std::uint64_t>();
  const auto content_crc32c = fields.next<std::uint32_t>();
  const std::string token_map_sha256 = hex_of_bytes(fields.next_bytes(kHashBytes));
  const std::string layout_hash = hex_of_bytes(fields.next_bytes(kHashBytes));
  if (codec > kCodecsMax) return bad_header("unknown codec " + std::to_string(codec));
  if ((flags & ~kFlagOwnerTags) != 0) return bad_header("unknown flags");
  if (!std::isfinite(format.tensor_scale) || format.tensor_scale <= 0) {
    return bad_header("the tensor scale is not a positive number");
  }
  format.codec = static_cast<RowCodec>(codec);
  auto layout = read_layout(fields);
  if (!layout) return layout.error();
  if (row_bytes(format.codec, layout->config.head_dim) > kTablePageBytes) {
    return bad_header("a row is wider than a page");
  }
  auto header = make_table_header(std::move(*layout), format, (flags & kFlagOwnerTags) != 0,
                                  token_map_sha256, generation);
  if (!header) return header.error();
  header->content_crc32c = content_crc32c;
  if (header->header_bytes != static_cast<std::int64_t>(envelope->size())) {
    return bad_header("its size contradicts the layout");
  }
  if (const auto checked = check_geometry(fields, *header, file_bytes); !checked) {
    return checked.error();
  }
  if (layout_sha256(header->layout) != layout_hash) {
    return bad_header("the layout does not fit its hash");
  }
  return header;
}

std::string layout_sha256(const EngramLayout& layout) {
  std::string bytes;
  put_layout(bytes, layout);
  return sha256_hex(bytes);
}

Result<void> check_table_matches(const TableHeader& header, const EngramLayout& layout,
                                 const std::string& token_map_sha256) {
  const std::string remedy =
      "; rows would be addressed wrongly: open it with the model it was made for, or import it "
      "from this model";
  const std::string table_hash = layout_sha256(header.layout);
  const std::string model_hash = layout_sha256(layout);
  if (table_hash != model_hash) {
    return invalid_argument(
        "table layout (" + std::to_string(header.layout.layers.size()) + " layers, orders 2.." +
        std::to_string(header.layout.config.max_ngram_size) + ", " +
        std::to_string(header.n_rows()) + " rows, hash " + table_hash.substr(0, 12) +
        ") is not the model's (" + std::to_string(layout.layers.size()) + " layers, orders 2.." +
        std::to_string(layout.config.max_ngram_size) + ", hash " + model_hash.substr(0, 12) + ")" +
        remedy);
  }
  if (header.token_map_sha256 == token_map_sha256) return {};
  return invalid_argument("table token map " + header.token_map_sha256.substr(0, 12) +
                          " is not the tokenizer's " + token_map_sha256.substr(0, 12) + remedy);
}

TableFile::TableFile(std::string path, RegularFile file, TableHeader header)
    : path_(std::move(path)), file_(std::move(file)), header_(std::move(header)) {}

Result<TableFile> TableFile::open(const std::string& path) {
  auto file = RegularFile::open(path);
  if (!file) return file.error();
  auto head = file->read(0, std::min(file->bytes(), kTablePageBytes));
  if (!head) return head.error();
  if (head->size() >= kHeaderPrefixBytes && head->starts_with(kMagic)) {
    std::uint32_t header_bytes = 0;
    std::memcpy(&header_bytes, head->data() + kHeaderBytesOffset, sizeof header_bytes);
    head = file->read(0, std::min({file->bytes(), kHeaderBytesMax,
                                   std::max<std::int64_t>(header_bytes, kTablePageBytes)}));
    if (!head) return head.error();
  }
  auto header = parse_table_header(*head, file->bytes());
  if (!header) return Error{header.error().kind, path + ": " + header.error().message};
  return TableFile(path, std::move(*file), std::move(*header));
}

Result<void> TableFile::read(std::int64_t offset_bytes, std::int64_t n_bytes,
                             std::uint8_t* into) const {
  while (n_bytes > 0) {
    const ssize_t n = ::pread(descriptor(), into, static_cast<std::size_t>(n_bytes), offset_bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_failure(path_, "cannot read");
    if (n == 0) {
      return environment_error(path_ +
                               ": became shorter while it was open; table files must be replaced "
                               "by rename, never cut: restore it and open it again");
    }
    into += n;
    offset_bytes += n;
    n_bytes -= n;
  }
  return {};
}

Result<std::vector<std::uint32_t>> TableFile::read_checksums() const {
  std::vector<std::uint32_t> checksums(static_cast<std::size_t>(header_.n_pages()));
  const auto got = read(header_.checksums_offset_bytes, header_.n_pages() * 4,
                        reinterpret_cast<std::uint8_t*>(checksums.data()));
  if (!got) return got.error();
  if (crc32c(checksums.data(), checksums.size() * 4) != header_.content_crc32c) {
    return invalid_argument(path_ +
                            ": the page checksums are damaged or belong to another file: copy the "
                            "file again, or import the table again");
  }
  return checksums;
}

Result<std::vector<std::uint16_t>> TableFile::read_owner_tags(int layer) const {
  const TableSection& section = header_.sections[static_cast<std::size_t>(layer)];
  if (!header_.has_owner_tags) return std::vector<std::uint16_t>{};
  const auto checksums = read_checksums();
  if (!checksums) return checksums.error();
  const auto bytes =
      file_.read(section.owner_offset_bytes, section.n_owner_pages * kTablePageBytes);
  if (!bytes) return bytes.error();
  const std::int64_t first = (section.owner_offset_bytes - header_.header_bytes) / kTablePageBytes;
  for (std::int64_t i = 0; i < section.n_owner_pages; ++i) {
    const char* page = bytes->data() + i * kTablePageBytes;
    if (crc32c(page, kTablePageBytes) != (*checksums)[static_cast<std::size_t>(first + i)]) {
      return damaged_page(first + i);
    }
  }
  std::vector<std::uint16_t> tags(static_cast<std::size_t>(section.n_rows));
  std::memcpy(tags.data(), bytes->data(), tags.size() * 2);
  return tags;
}

Error TableFile::damaged_page(std::int64_t page) const {
  const std::int64_t offset_bytes = header_.header_bytes + page * kTablePageBytes;
  std::string place;
  for (std::size_t i = 0; i < header_.sections.size(); ++i) {
    const TableSection& section = header_.sections[i];
    const std::int64_t data_page = (offset_bytes - section.data_offset_bytes) / kTablePageBytes;
    const std::string layer = "layer " + std::to_string(header_.layout.layers[i].layer_id);
    if (offset_bytes >= section.data_offset_bytes && data_page < section.n_data_pages) {
      const std::int64_t first = data_page * header_.rows_per_page;
      place = layer + ", rows " + std::to_string(first) + " .. " +
              std::to_string(std::min(section.n_rows, first + header_.rows_per_page) - 1);
    } else if (section.n_owner_pages > 0 && offset_bytes >= section.owner_offset_bytes &&
               offset_bytes <
                   section.owner_offset_bytes + section.n_owner_pages * kTablePageBytes) {
      place = layer + ", owner tags";
    }
  }
  return environment_error(path_ + ": page at byte " + std::to_string(offset_bytes) + " (" + place +
                           ") is damaged: its checksum does not fit; restore the file from a copy "
                           "or import the table again (`engramd table verify` lists all)");
}

Error file_failure(const std::string& path, const char* what) {
  const int code = errno;
  std::string message =
      path + ": " + what + ": " + std::error_code(code, std::generic_category()).message();
  return code == ENOENT ? not_found(std::move(message)) : environment_error(std::move(message));
}

}  // namespace engramd::engine
