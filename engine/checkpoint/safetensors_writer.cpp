#include "engine/checkpoint/safetensors_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace engramd::engine {
namespace {

constexpr std::size_t kHeaderAlignment = 8;

Error write_failure(const std::string& path, const char* what) {
  return environment_error(path + ": " + what + ": " +
                           std::error_code(errno, std::generic_category()).message());
}

// The header's JSON text, tensors in the order of their data. Assembled member by member: an
// ordered_json object would search its names for each insertion.
Result<std::string> header_text(const std::vector<TensorSpec>& specs,
                                const std::map<std::string, std::string>& metadata,
                                std::int64_t* data_bytes) {
  std::string text = "{";
  const auto add = [&text](const std::string& name, const nlohmann::json& value) {
    if (text.size() > 1) text += ',';
    text += nlohmann::json(name).dump() + ":" + value.dump();
  };
  if (!metadata.empty()) add("__metadata__", metadata);
  for (const TensorSpec& spec : specs) {
    std::int64_t bits = bits_of_dtype(spec.dtype);
    for (const std::int64_t extent : spec.shape) {
      if (extent < 0 || __builtin_mul_overflow(bits, extent, &bits)) {
        return invalid_argument("tensor " + spec.name + ": extents out of range");
      }
    }
    const std::int64_t begin = *data_bytes;
    if (__builtin_add_overflow(begin, bits / 8, data_bytes)) {
      return invalid_argument("tensor " + spec.name + ": the file would be too large");
    }
    add(spec.name,
        {{"dtype", spec.dtype}, {"shape", spec.shape}, {"data_offsets", {begin, *data_bytes}}});
  }
  return text + "}";
}

// The first bytes of the file (length, JSON, padding) and the size of the whole file.
Result<std::pair<std::string, std::int64_t>> make_head(
    const std::vector<TensorSpec>& specs, const std::map<std::string, std::string>& metadata) try {
  std::int64_t data_bytes = 0;
  auto text = header_text(specs, metadata, &data_bytes);
  if (!text) return text.error();
  text->resize((text->size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  std::string head(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) head[i] = static_cast<char>(text->size() >> (8 * i));
  head += *text;
  return std::pair(head, static_cast<std::int64_t>(head.size()) + data_bytes);
} catch (const nlohmann::json::exception&) {
  return invalid_argument("a name or a metadata value is not valid UTF-8");
}

}  // namespace

Result<SafetensorsWriter> SafetensorsWriter::create(
    const std::string& path, std::vector<TensorSpec> specs,
    const std::map<std::string, std::string>& metadata) {
  std::sort(specs.begin(), specs.end(), [](const TensorSpec& a, const TensorSpec& b) {
    return std::tuple(-bits_of_dtype(a.dtype), a.name) <
           std::tuple(-bits_of_dtype(b.dtype), b.name);
  });
  const auto twice =
      std::adjacent_find(specs.begin(), specs.end(),
                         [](const TensorSpec& a, const TensorSpec& b) { return a.name == b.name; });
  if (twice != specs.end()) return invalid_argument("tensor " + twice->name + " stands twice");
  const auto head = make_head(specs, metadata);
  if (!head) return head.error();
  // The reader's own checks decide whether the file may exist.
  auto header = parse_safetensors_header(head->first, head->second);
  if (!header) return header.error();

  SafetensorsWriter writer(path, std::move(*header));
  writer.file_bytes_ = head->second;
  writer.temporary_path_ = path + "." + std::to_string(::getpid()) + ".tmp";
  writer.descriptor_ = ::open(writer.temporary_path_.c_str(),
                              O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (writer.descriptor_ < 0) return write_failure(writer.temporary_path_, "cannot create");
  const auto written = writer.append(std::as_bytes(std::span(head->first)));
  if (!written) return written.error();
  return writer;
}

SafetensorsWriter::SafetensorsWriter(std::string path, SafetensorsHeader header)
    : path_(std::move(path)), header_(std::move(header)) {}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_path_(std::move(other.temporary_path_)),
      header_(std::move(other.header_)),
      file_bytes_(other.file_bytes_),
      written_bytes_(other.written_bytes_),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_path_.c_str());
}

Result<void> SafetensorsWriter::append(std::span<const std::byte> bytes) {
  if (static_cast<std::int64_t>(bytes.size()) > file_bytes_ - written_bytes_) {
    return invalid_argument(path_ + ": more data than the header promises");
  }
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return write_failure(temporary_path_, "cannot write");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    written_bytes_ += n;
  }
  return {};
}

Result<void> SafetensorsWriter::finish() {
  if (written_bytes_ != file_bytes_) {
    return invalid_argument(path_ + ": expected " + std::to_string(file_bytes_) +
                            " bytes in all, got " + std::to_string(written_bytes_));
  }
  if (::fsync(descriptor_) != 0) return write_failure(temporary_path_, "cannot sync");
  if (::rename(temporary_path_.c_str(), path_.c_str()) != 0) {
    return write_failure(path_, "cannot rename the finished file");
  }
  ::close(std::exchange(descriptor_, -1));
  // The rename itself survives a crash once the folder is synced.
  const auto folder = std::filesystem::path(path_).parent_path();
  const int directory = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (directory < 0) return write_failure(folder.string(), "cannot open");
  const bool synced = ::fsync(directory) == 0;
  ::close(directory);
  if (!synced) return write_failure(folder.string(), "cannot sync");
  return {};
}

}  // namespace engramd::engine
