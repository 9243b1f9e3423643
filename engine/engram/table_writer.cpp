#include "engine/engram/table_writer.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "engine/engram/crc32c.h"
#include "engine/engram/partial_file.h"
#include "engine/engram/sha256.h"

namespace engramd::engine {
namespace {

constexpr std::int64_t kBatchPages = 256;  // 1 MiB per write
// Fills pages of one section, [n_pages, kTablePageBytes], zeros behind the last row.
Result<void> fill_rows(const TableHeader& header, TableContent& content, int layer,
                       std::int64_t first_page, std::int64_t n_pages, std::uint8_t* pages) {
  const TableSection& section = header.sections[static_cast<std::size_t>(layer)];
  const std::int64_t first = first_page * header.rows_per_page;
  const std::int64_t count = std::min(n_pages * header.rows_per_page, section.n_rows - first);
  const std::int64_t used_bytes = header.rows_per_page * header.row_bytes();
  if (const auto got = content.rows(layer, first, count, pages); !got) return got.error();
  std::memset(pages + count * header.row_bytes(), 0,
              static_cast<std::size_t>(n_pages * kTablePageBytes - count * header.row_bytes()));
  if (used_bytes == kTablePageBytes) return {};
  for (std::int64_t page = n_pages - 1; page >= 0; --page) {  // from the back: it grows in place
    std::uint8_t* to = pages + page * kTablePageBytes;
    std::memmove(to, pages + page * used_bytes, static_cast<std::size_t>(used_bytes));
    std::memset(to + used_bytes, 0, static_cast<std::size_t>(kTablePageBytes - used_bytes));
  }
  return {};
}

Result<void> fill_owner_tags(const TableHeader& header, TableContent& content, int layer,
                             std::int64_t first_page, std::int64_t n_pages, std::uint8_t* pages) {
  constexpr std::int64_t kTagsPerPage = kTablePageBytes / 2;
  const TableSection& section = header.sections[static_cast<std::size_t>(layer)];
  const std::int64_t first = first_page * kTagsPerPage;
  std::vector<std::uint16_t> tags(static_cast<std::size_t>(n_pages * kTagsPerPage));
  const auto count =
      static_cast<std::size_t>(std::min(n_pages * kTagsPerPage, section.n_rows - first));
  if (const auto got = content.owner_tags(layer, first, std::span(tags).first(count)); !got) {
    return got.error();
  }
  std::memcpy(pages, tags.data(), tags.size() * 2);
  return {};
}

// A run of pages with one source. Page numbers count from the end of the header.
struct PageRun {
  int layer = 0;
  bool is_owner = false;
  std::int64_t first = 0, n_pages = 0;
};

std::vector<PageRun> page_runs(const TableHeader& header) {
  std::vector<PageRun> runs;
  for (std::size_t i = 0; i < header.sections.size(); ++i) {
    const TableSection& section = header.sections[i];
    const auto page_of = [&](std::int64_t offset_bytes) {
      return (offset_bytes - header.header_bytes) / kTablePageBytes;
    };
    const int layer = static_cast<int>(i);
    runs.push_back({layer, false, page_of(section.data_offset_bytes), section.n_data_pages});
    if (section.n_owner_pages > 0) {
      runs.push_back({layer, true, page_of(section.owner_offset_bytes), section.n_owner_pages});
    }
  }
  return runs;
}

bool is_zero(const std::vector<std::uint8_t>& bytes, std::size_t n) {
  return bytes[0] == 0 && std::memcmp(bytes.data(), bytes.data() + 1, n - 1) == 0;
}

// One batch: content, data, checksums.
Result<void> write_batch(PartialFile& file, const TableHeader& header, TableContent& content,
                         const PageRun& run, std::int64_t first, std::int64_t n_pages,
                         std::vector<std::uint8_t>& pages) {
  const auto fill = run.is_owner ? fill_owner_tags : fill_rows;
  if (const auto filled =
          fill(header, content, run.layer, first - run.first, n_pages, pages.data());
      !filled) {
    return filled.error();
  }
  const auto n_bytes = static_cast<std::size_t>(n_pages * kTablePageBytes);
  if (!is_zero(pages, n_bytes)) {
    const auto written =
        file.write(header.header_bytes + first * kTablePageBytes, pages.data(), n_bytes);
    if (!written) return written.error();
  }
  std::vector<std::uint32_t> checksums;
  for (std::int64_t i = 0; i < n_pages; ++i) {
    checksums.push_back(crc32c(pages.data() + i * kTablePageBytes, kTablePageBytes));
  }
  return file.write(header.checksums_offset_bytes + first * 4, checksums.data(),
                    checksums.size() * 4);
}

Result<void> write_pages(PartialFile& file, const TableHeader& header, TableContent& content,
                         const TableWriteOptions& options) {
  std::vector<std::uint8_t> pages(kBatchPages * kTablePageBytes);
  TableProgress progress{file.pages_done(), header.n_pages(), file.pages_done()};
  std::int64_t recorded = file.pages_done();
  for (const PageRun& run : page_runs(header)) {
    while (progress.pages_done < run.first + run.n_pages) {
      if (options.stop.stop_requested()) {
        if (const auto kept = file.record(progress.pages_done); !kept) return kept.error();
        return cancelled("stopped after " + std::to_string(progress.pages_done) + " of " +
                         std::to_string(progress.pages_total) +
                         " pages; start the same command again: it continues");
      }
      const std::int64_t n_pages =
          std::min(kBatchPages, run.first + run.n_pages - progress.pages_done);
      const auto written =
          write_batch(file, header, content, run, progress.pages_done, n_pages, pages);
      if (!written) return written.error();
      progress.pages_done += n_pages;
      if ((progress.pages_done - recorded) * kTablePageBytes >= options.sync_bytes) {
        recorded = progress.pages_done;
        if (const auto kept = file.record(recorded); !kept) return kept.error();
      }
      if (options.progress) options.progress(progress);
    }
  }
  return {};
}

Result<std::uint32_t> content_crc32c(const PartialFile& file, const TableHeader& header) {
  std::vector<char> part(1 << 20);
  std::uint32_t crc = 0;
  std::int64_t left = header.n_pages() * 4;
  for (std::int64_t at = header.checksums_offset_bytes; left > 0;) {
    const auto n = std::min<std::int64_t>(left, static_cast<std::int64_t>(part.size()));
    const auto got = file.read(at, part.data(), static_cast<std::size_t>(n));
    if (!got) return got.error();
    crc = crc32c(part.data(), static_cast<std::size_t>(n), crc);
    at += n;
    left -= n;
  }
  return crc;
}

}  // namespace

Result<void> write_table(const std::string& path, TableHeader header, TableContent& content,
                         const TableWriteOptions& options) {
  if (std::filesystem::exists(std::filesystem::symlink_status(path))) {
    return invalid_argument(path + ": exists already; remove it or choose another name");
  }
  header.content_crc32c = 0;
  const std::string job = sha256_hex(serialize_table_header(header) + content.identity());
  auto file = PartialFile::open(path + ".partial", job, header.file_bytes);
  if (!file) return file.error();
  if (const auto written = write_pages(*file, header, content, options); !written) {
    return written.error();
  }
  // All pages are on disk before a header says that they are there.
  if (const auto synced = file->record(header.n_pages()); !synced) return synced.error();
  const auto crc = content_crc32c(*file, header);
  if (!crc) return crc.error();
  header.content_crc32c = *crc;
  const std::string head = serialize_table_header(header);
  if (const auto written = file->write(0, head.data(), head.size()); !written) {
    return written.error();
  }
  if (const auto synced = file->sync(); !synced) return synced.error();
  return file->rename_to(path);
}

Result<ZeroContent> ZeroContent::make(const RowFormat& format) {
  const std::vector<float> zeros(static_cast<std::size_t>(format.n_columns));
  auto image = encode_row(format.codec, zeros, format.tensor_scale);
  if (!image) return image.error();
  return ZeroContent(std::move(*image));
}

Result<void> ZeroContent::rows(int, std::int64_t, std::int64_t count, std::uint8_t* images) {
  for (std::int64_t i = 0; i < count; ++i) {
    images = std::copy(image_.begin(), image_.end(), images);
  }
  return {};
}

Result<void> ZeroContent::owner_tags(int, std::int64_t, std::span<std::uint16_t> tags) {
  std::fill(tags.begin(), tags.end(), std::uint16_t{0});
  return {};
}

}  // namespace engramd::engine
