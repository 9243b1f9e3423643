#include "engine/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <sys/mman.h>

#include "engine/checkpoint/json_value.h"
#include "engine/checkpoint/regular_file.h"

namespace engramd::engine {
namespace {

constexpr std::int64_t kLengthBytes = 8;
constexpr std::uint64_t kHeaderBytesMax = 100'000'000;  // the limit of the safetensors library
constexpr std::size_t kTensorsMax = 1'000'000;
constexpr std::size_t kRankMax = 8;
constexpr std::string_view kMetadata = "__metadata__";
// One tensor is about ten values; its shape stands at depth 3.
constexpr JsonLimits kHeaderLimits = {.depth_max = 8, .values_max = 16 * kTensorsMax};

// enum Dtype of safetensors/src/tensor.rs, version 0.8.0.
struct DTypeRow {
  std::string_view name;
  int bits;
  std::optional<kernels::DType> dtype;
};
using kernels::DType;
constexpr std::array<DTypeRow, 22> kDTypes = {{
    {"BOOL", 8, DType::kBool},
    {"F4", 4, std::nullopt},
    {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
    {"U8", 8, DType::kU8},
    {"I8", 8, DType::kI8},
    {"F8_E5M2", 8, DType::kF8E5M2},
    {"F8_E4M3", 8, DType::kF8E4M3},
    {"F8_E8M0", 8, DType::kF8E8M0},
    {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt},
    {"I16", 16, DType::kI16},
    {"U16", 16, DType::kU16},
    {"F16", 16, DType::kF16},
    {"BF16", 16, DType::kBF16},
    {"I32", 32, DType::kI32},
    {"U32", 32, DType::kU32},
    {"F32", 32, DType::kF32},
    {"C64", 64, std::nullopt},
    {"F64", 64, DType::kF64},
    {"I64", 64, DType::kI64},
    {"U64", 64, DType::kU64},
}};

const DTypeRow* find_dtype(std::string_view name) {
  const auto row = std::find_if(kDTypes.begin(), kDTypes.end(),
                                [&](const DTypeRow& r) { return r.name == name; });
  return row == kDTypes.end() ? nullptr : &*row;
}

std::string to_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) {
    if (text.size() > 1) text += ',';
    text += std::to_string(extent);
  }
  return text + "]";
}

Error tensor_error(std::string_view name, const std::string& what) {
  return invalid_argument("tensor " + printable(name) + ": " + what);
}

// The bytes of a tensor of this dtype and shape.
Result<std::int64_t> expected_bytes(const TensorInfo& tensor) {
  std::int64_t bits = bits_of_dtype(tensor.dtype);
  for (const std::int64_t extent : tensor.shape) {
    if (__builtin_mul_overflow(bits, extent, &bits)) {
      return tensor_error(tensor.name, "shape overflows: " + to_text(tensor.shape));
    }
  }
  if (bits % 8 != 0) {
    return tensor_error(tensor.name, tensor.dtype + " " + to_text(tensor.shape) +
                                         " is not a whole number of bytes");
  }
  return bits / 8;
}

Result<std::vector<std::int64_t>> parse_shape(std::string_view name, const JsonValue& value) {
  const auto* array = value.as<JsonValue::Array>();
  if (array == nullptr) {
    return tensor_error(name, "shape must be an array, got " + value.describe());
  }
  if (array->size() > kRankMax) {
    return tensor_error(name, "more dimensions than supported: " + std::to_string(array->size()) +
                                  ", the limit is " + std::to_string(kRankMax));
  }
  std::vector<std::int64_t> shape;
  for (const JsonValue& item : *array) {
    const auto* extent = item.as<std::uint64_t>();
    if (extent == nullptr) {
      return tensor_error(name, "shape must hold non-negative integers, got " + item.describe());
    }
    if (*extent > INT64_MAX) return tensor_error(name, "shape overflows: " + item.describe());
    shape.push_back(static_cast<std::int64_t>(*extent));
  }
  return shape;
}

// Fills begin_bytes (in the file) and length_bytes; both lie inside the file afterwards.
std::optional<Error> parse_offsets(const JsonValue& value, std::int64_t data_begin_bytes,
                                   std::int64_t file_bytes, TensorInfo* tensor) {
  const auto* array = value.as<JsonValue::Array>();
  const bool two = array != nullptr && array->size() == 2;
  const auto* begin = two ? (*array)[0].as<std::uint64_t>() : nullptr;
  const auto* end = two ? (*array)[1].as<std::uint64_t>() : nullptr;
  if (begin == nullptr || end == nullptr) {
    return tensor_error(tensor->name, "data_offsets must be two non-negative integers");
  }
  const std::string range = std::to_string(*begin) + ".." + std::to_string(*end);
  if (*begin > *end) return tensor_error(tensor->name, "data_offsets are reversed: " + range);
  const auto data_bytes = static_cast<std::uint64_t>(file_bytes - data_begin_bytes);
  if (*end > data_bytes) {
    return tensor_error(tensor->name, "data range outside the file: " + range + " of " +
                                          std::to_string(data_bytes) +
                                          " data bytes; the file may be cut, fetch it again");
  }
  tensor->begin_bytes = data_begin_bytes + static_cast<std::int64_t>(*begin);
  tensor->length_bytes = static_cast<std::int64_t>(*end - *begin);
  return std::nullopt;
}

Result<TensorInfo> parse_tensor(std::string_view name, const JsonValue& entry,
                                std::int64_t data_begin_bytes, std::int64_t file_bytes) {
  if (name.find('\0') != std::string_view::npos) {
    return invalid_argument("tensor name contains a NUL: " + printable(name));
  }
  const auto* fields = entry.as<JsonValue::Object>();
  if (fields == nullptr) {
    return tensor_error(name, "entry must be an object, got " + entry.describe());
  }
  for (const JsonMember& field : *fields) {
    if (field.name != "dtype" && field.name != "shape" && field.name != "data_offsets") {
      return tensor_error(name, "unknown field " + printable(field.name));
    }
  }
  for (const char* required : {"dtype", "shape", "data_offsets"}) {
    if (entry.find(required) == nullptr)
      return tensor_error(name, required + std::string(" is missing"));
  }
  TensorInfo tensor;
  tensor.name = name;
  const JsonValue& dtype = *entry.find("dtype");
  if (dtype.as<std::string>() == nullptr) {
    return tensor_error(name, "dtype must be a string, got " + dtype.describe());
  }
  tensor.dtype = *dtype.as<std::string>();
  if (bits_of_dtype(tensor.dtype) == 0) {
    return tensor_error(name, "unknown dtype " + printable(tensor.dtype));
  }
  auto shape = parse_shape(name, *entry.find("shape"));
  if (!shape) return shape.error();
  tensor.shape = std::move(*shape);
  if (auto error =
          parse_offsets(*entry.find("data_offsets"), data_begin_bytes, file_bytes, &tensor)) {
    return *error;
  }
  const auto needed = expected_bytes(tensor);
  if (!needed) return needed.error();
  if (*needed != tensor.length_bytes) {
    return tensor_error(name, tensor.dtype + " " + to_text(tensor.shape) + " needs " +
                                  std::to_string(*needed) + " bytes, data_offsets give " +
                                  std::to_string(tensor.length_bytes));
  }
  return tensor;
}

std::optional<Error> parse_metadata(const JsonValue& value,
                                    std::map<std::string, std::string>* metadata) {
  const auto* object = value.as<JsonValue::Object>();
  if (object == nullptr) {
    return invalid_argument("__metadata__ must be an object, got " + value.describe());
  }
  for (const JsonMember& member : *object) {
    const auto* text = member.value.as<std::string>();
    if (text == nullptr) {
      return invalid_argument("__metadata__." + printable(member.name) + " must be a string, got " +
                              member.value.describe());
    }
    (*metadata)[member.name] = *text;
  }
  return std::nullopt;
}

// `tensors` ascend; together they must cover the data exactly.
std::optional<Error> check_coverage(const std::vector<TensorInfo>& tensors,
                                    std::int64_t data_begin_bytes, std::int64_t file_bytes) {
  std::int64_t covered = data_begin_bytes;
  const TensorInfo* previous = nullptr;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin_bytes < covered) {
      return invalid_argument("tensors " + printable(previous->name) + " and " +
                              printable(tensor.name) + " overlap");
    }
    if (tensor.begin_bytes > covered) {
      return invalid_argument(std::to_string(tensor.begin_bytes - covered) +
                              " bytes are not covered by any tensor, before tensor " +
                              printable(tensor.name));
    }
    covered += tensor.length_bytes;
    previous = &tensor;
  }
  if (covered == file_bytes) return std::nullopt;
  return invalid_argument(std::to_string(file_bytes - covered) +
                          " bytes are not covered by any tensor, at the end of the file");
}

std::uint64_t little_endian_u64(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 8; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// The length of the JSON header, from the first 8 bytes.
Result<std::int64_t> header_length(std::string_view head, std::int64_t file_bytes) {
  if (file_bytes < kLengthBytes || head.size() < kLengthBytes) {
    return invalid_argument("file too short for a header length: " + std::to_string(file_bytes) +
                            " bytes, expected at least 8");
  }
  const std::uint64_t length = little_endian_u64(head);
  if (length > kHeaderBytesMax) {
    return limit_exceeded("header is larger than the limit: " + std::to_string(length) +
                          " bytes, expected at most " + std::to_string(kHeaderBytesMax) +
                          "; is this a safetensors file?");
  }
  if (length == 0) return invalid_argument("header is empty");
  if (static_cast<std::int64_t>(length) > file_bytes - kLengthBytes) {
    return invalid_argument("header of " + std::to_string(length) +
                            " bytes runs past the end of the file");
  }
  return static_cast<std::int64_t>(length);
}

}  // namespace

int bits_of_dtype(std::string_view dtype) {
  const DTypeRow* row = find_dtype(dtype);
  return row == nullptr ? 0 : row->bits;
}

std::string_view spelling_of(kernels::DType dtype) {
  const auto row = std::find_if(kDTypes.begin(), kDTypes.end(),
                                [&](const DTypeRow& r) { return r.dtype == dtype; });
  ENGRAMD_ASSERT(row != kDTypes.end());
  return row->name;
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view head, std::int64_t file_bytes) {
  const auto length = header_length(head, file_bytes);
  if (!length) return length.error();
  ENGRAMD_ASSERT(static_cast<std::int64_t>(head.size()) >= kLengthBytes + *length);
  const std::string_view json = head.substr(kLengthBytes, static_cast<std::size_t>(*length));
  if (json.front() == '[') return invalid_argument("header must be a JSON object, got an array");
  if (json.front() != '{') return invalid_argument("header must start with '{'");
  const std::size_t last = json.find_last_not_of(' ');
  if (json[last] == '\n' || json[last] == '\r' || json[last] == '\t') {
    return invalid_argument("header padding must be spaces");
  }
  const auto root = parse_json(json, "header", kHeaderLimits);
  if (!root) return root.error();

  SafetensorsHeader header;
  header.data_begin_bytes = kLengthBytes + *length;
  const auto& members = *root->as<JsonValue::Object>();
  if (members.size() > kTensorsMax + 1) {
    return limit_exceeded("header lists " + std::to_string(members.size()) +
                          " tensors, expected at most " + std::to_string(kTensorsMax));
  }
  header.tensors.reserve(members.size());
  for (const JsonMember& member : members) {
    if (member.name == kMetadata) {
      if (auto error = parse_metadata(member.value, &header.metadata)) return *error;
      continue;
    }
    auto tensor = parse_tensor(member.name, member.value, header.data_begin_bytes, file_bytes);
    if (!tensor) return tensor.error();
    header.tensors.push_back(std::move(*tensor));
  }
  // Empty tensors come before what starts at the same byte, so that touching ranges never look
  // like overlapping ones.
  std::stable_sort(
      header.tensors.begin(), header.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
        return std::pair(a.begin_bytes, a.length_bytes) < std::pair(b.begin_bytes, b.length_bytes);
      });
  if (auto error = check_coverage(header.tensors, header.data_begin_bytes, file_bytes)) {
    return *error;
  }
  return header;
}

struct SafetensorsFile::Impl {
  std::string path;
  SafetensorsHeader header;
  std::unordered_map<std::string_view, std::size_t> index_of;  // keys: header.tensors[i].name
  char* mapping = nullptr;                                     // the whole file; nullptr if empty
  std::size_t mapping_bytes = 0;
  // Tensors whose data is not aligned to its element in the file. operator new aligns for all.
  std::unordered_map<std::size_t, std::unique_ptr<char[]>> aligned_copies;

  Impl() = default;
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    if (mapping != nullptr) ::munmap(mapping, mapping_bytes);
  }

  void index_tensors() {
    for (std::size_t i = 0; i < header.tensors.size(); ++i) {
      const TensorInfo& tensor = header.tensors[i];
      index_of.emplace(tensor.name, i);
      const int element_bytes = bits_of_dtype(tensor.dtype) / 8;  // a mapping starts at a page
      if (element_bytes < 2 || tensor.begin_bytes % element_bytes == 0) continue;
      const auto length = static_cast<std::size_t>(tensor.length_bytes);
      auto copy = std::make_unique<char[]>(length);
      std::memcpy(copy.get(), mapping + tensor.begin_bytes, length);
      aligned_copies.emplace(i, std::move(copy));
    }
  }
};

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path, bool populate) {
  auto file = RegularFile::open(path);
  if (!file) return file.error();
  const auto in_file = [&](Error error) {
    error.message = path + ": " + error.message;
    return error;
  };
  const auto first = file->read(0, std::min(file->bytes(), kLengthBytes));
  if (!first) return first.error();
  const auto length = header_length(*first, file->bytes());
  if (!length) return in_file(length.error());
  const auto head = file->read(0, kLengthBytes + *length);
  if (!head) return head.error();
  auto header = parse_safetensors_header(*head, file->bytes());
  if (!header) return in_file(header.error());

  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->header = std::move(*header);
  impl->mapping_bytes = static_cast<std::size_t>(file->bytes());
  void* mapping = ::mmap(nullptr, impl->mapping_bytes, PROT_READ,
                         MAP_PRIVATE | (populate ? MAP_POPULATE : 0), file->descriptor(), 0);
  if (mapping == MAP_FAILED) {
    return environment_error(path + ": cannot map " + std::to_string(file->bytes()) + " bytes: " +
                             std::error_code(errno, std::generic_category()).message());
  }
  impl->mapping = static_cast<char*>(mapping);
  impl->index_tensors();
  return SafetensorsFile(std::move(impl));
}

SafetensorsFile::SafetensorsFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SafetensorsFile::SafetensorsFile(SafetensorsFile&&) noexcept = default;
SafetensorsFile& SafetensorsFile::operator=(SafetensorsFile&&) noexcept = default;
SafetensorsFile::~SafetensorsFile() = default;

const std::string& SafetensorsFile::path() const {
  return impl_->path;
}
const SafetensorsHeader& SafetensorsFile::header() const {
  return impl_->header;
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  const auto it = impl_->index_of.find(name);
  return it == impl_->index_of.end() ? nullptr : &impl_->header.tensors[it->second];
}

Result<kernels::TensorView> SafetensorsFile::tensor(std::string_view name) const {
  const auto it = impl_->index_of.find(name);
  if (it == impl_->index_of.end()) {
    return not_found("tensor " + printable(name) + " is not in " + impl_->path);
  }
  const TensorInfo& info = impl_->header.tensors[it->second];
  const auto dtype = find_dtype(info.dtype)->dtype;
  if (!dtype) return tensor_error(name, "dtype " + info.dtype + " cannot be used");
  if (info.shape.size() > kernels::kMaxDimensions) {
    return tensor_error(name, "has " + std::to_string(info.shape.size()) +
                                  " dimensions, expected at most " +
                                  std::to_string(kernels::kMaxDimensions));
  }
  kernels::TensorView view;
  const auto copy = impl_->aligned_copies.find(it->second);
  view.data =
      copy == impl_->aligned_copies.end() ? impl_->mapping + info.begin_bytes : copy->second.get();
  view.dtype = *dtype;
  view.n_dimensions = static_cast<int>(info.shape.size());
  std::copy(info.shape.begin(), info.shape.end(), view.shape.begin());
  return view;
}

}  // namespace engramd::engine
