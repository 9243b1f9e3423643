// TableFile: engramd's own row file, all Engram layers of one model in one file. The bytes are
// described in TABLES.md. A file is untrusted: every field is bounded, every offset recomputed,
// before anything is believed. Never changed in place once it has its name: any thread reads.
// Not here: writing one (table_writer), serving rows from it (table_rows).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"
#include "engine/checkpoint/regular_file.h"
#include "engine/engram/layout.h"
#include "engine/engram/row_source.h"

namespace engramd::engine {

inline constexpr std::int64_t kTablePageBytes = 4096;

// Pages of one layer within the file. Owner tags (u16 per row) lie apart: decoding a row never
// needs its tag, and a row image stays what every other part of engramd calls one.
struct TableSection {
  std::int64_t n_rows = 0;
  std::int64_t data_offset_bytes = 0;
  std::int64_t n_data_pages = 0;
  std::int64_t owner_offset_bytes = 0;  // 0: no tags
  std::int64_t n_owner_pages = 0;
};

struct TableHeader {
  EngramLayout layout;  // config.vocab_size (a prime search's base) is not stored
  RowFormat format;
  bool has_owner_tags = false;
  std::uint64_t generation = 1;
  std::string token_map_sha256;      // hex, as sha256_hex(TokenMap)
  std::uint32_t content_crc32c = 0;  // of the checksum section: one number for all rows

  // Derived from the above.
  std::int64_t header_bytes = 0;
  std::int64_t rows_per_page = 0;
  std::vector<TableSection> sections;  // as layout.layers
  std::int64_t checksums_offset_bytes = 0;
  std::int64_t file_bytes = 0;

  std::int64_t row_bytes() const { return engine::row_bytes(format.codec, format.n_columns); }
  std::int64_t n_rows() const;
  // Pages that have a checksum: all between the header and the checksum section.
  std::int64_t n_pages() const { return (checksums_offset_bytes - header_bytes) / kTablePageBytes; }
  std::int64_t n_data_pages() const;
};

// Derives the geometry. Refused: a row wider than a page, more than 2^40 rows.
Result<TableHeader> make_table_header(EngramLayout layout, RowFormat format, bool has_owner_tags,
                                      std::string token_map_sha256, std::uint64_t generation);
// A layout with exactly `buckets` rows per order and head, prime or not (layer_ids, max_ngram_size,
// n_heads, head_dim, hashed_vocab_size, pad_token_id and seed of `config` are used). Ranges are
// those of make_layout.
Result<EngramLayout> make_bucket_layout(EngramLayoutConfig config, std::int64_t buckets);

std::string serialize_table_header(const TableHeader& header);  // header_bytes bytes
// `head`: the first bytes of a file of `file_bytes`, the whole header at least. Pure: the fuzz
// target. Errors say what is wrong and what to do.
Result<TableHeader> parse_table_header(std::string_view head, std::int64_t file_bytes);

// Hex SHA-256 over what decides which row an N-gram reads: two tables with the same hash are
// addressed alike.
std::string layout_sha256(const EngramLayout& layout);

// Refuses a table that does not belong to a model: other addressing, other token map.
Result<void> check_table_matches(const TableHeader& header, const EngramLayout& layout,
                                 const std::string& token_map_sha256);

class TableFile {
 public:
  static Result<TableFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  const TableHeader& header() const { return header_; }
  int descriptor() const { return file_.descriptor(); }
  // Exactly n_bytes bytes at offset_bytes; a file that has become shorter is an error.
  Result<void> read(std::int64_t offset_bytes, std::int64_t n_bytes, std::uint8_t* into) const;

  // CRC32C of every page, 4 bytes per 4 KiB of table; checked against content_crc32c.
  Result<std::vector<std::uint32_t>> read_checksums() const;
  Result<std::vector<std::uint16_t>> read_owner_tags(int layer) const;  // empty: none; verified
  // What to say about page `page` (counted from the header's end) when its checksum differs.
  Error damaged_page(std::int64_t page) const;

 private:
  TableFile(std::string path, RegularFile file, TableHeader header);
  std::string path_;
  RegularFile file_;
  TableHeader header_;
};

// errno as an Error: `path: what: reason`.
Error file_failure(const std::string& path, const char* what);

}  // namespace engramd::engine
