#include "engine/checkpoint/shard_index.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/checkpoint/json_value.h"
#include "engine/checkpoint/regular_file.h"

namespace engramd::engine {
namespace {

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr std::int64_t kIndexBytesMax = 100'000'000;  // as a safetensors header
constexpr std::size_t kShardsMax = 10'000;
constexpr JsonLimits kIndexLimits = {.depth_max = 8, .values_max = 1'100'000};

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name != "." && name != ".." &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return static_cast<unsigned char>(c) >= 0x20 && c != '/' && c != '\\';
         });
}

// A weight file of the folder. It may be a symbolic link to anywhere, as in the Hugging Face cache,
// which keeps the files themselves in blobs/ beside it; what it leads to must be a regular file.
Result<SafetensorsFile> open_in_folder(const std::string& folder, const std::string& name,
                                       bool populate) {
  auto file = SafetensorsFile::open(folder + "/" + name, populate);
  if (!file && file.error().kind == ErrorKind::kNotFound) {
    return not_found(folder + ": shard " + name + " is missing; fetch the model again");
  }
  return file;
}

template <class Extents>
std::string describe(kernels::DType dtype, const Extents& shape, std::size_t rank) {
  std::string text = std::string(spelling_of(dtype)) + " [";
  for (std::size_t i = 0; i < rank; ++i) {
    if (i > 0) text += ',';
    text += shape[i] < 0 ? "any" : std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace

Result<ShardIndex> parse_shard_index(std::string_view json) {
  const auto root = parse_json(json, "index", kIndexLimits);
  if (!root) return root.error();
  if (root->as<JsonValue::Object>() == nullptr) {
    return invalid_argument("index must be a JSON object, got " + root->describe());
  }
  const JsonValue* weight_map = root->find("weight_map");
  if (weight_map == nullptr) return invalid_argument("index: weight_map is missing");
  const auto* members = weight_map->as<JsonValue::Object>();
  if (members == nullptr) {
    return invalid_argument("index: weight_map must be an object, got " + weight_map->describe());
  }

  ShardIndex index;
  std::unordered_map<std::string, std::size_t> number_of;
  for (const JsonMember& member : *members) {
    const auto* file = member.value.as<std::string>();
    if (file == nullptr) {
      return invalid_argument("index: weight_map." + printable(member.name) +
                              " must be a string, got " + member.value.describe());
    }
    if (!is_plain_file_name(*file)) {
      return invalid_argument("index: shard name must be a plain file name: " + printable(*file));
    }
    const auto [place, is_first] = number_of.emplace(*file, index.files.size());
    if (is_first) index.files.push_back(*file);
    if (index.files.size() > kShardsMax) {
      return limit_exceeded("index names more shards than the limit of " +
                            std::to_string(kShardsMax));
    }
    index.shard_of.emplace(member.name, place->second);
  }
  const JsonValue* metadata = root->find("metadata");
  const JsonValue* total = metadata == nullptr ? nullptr : metadata->find("total_size");
  const auto* total_size = total == nullptr ? nullptr : total->as<std::uint64_t>();
  if (total_size != nullptr && *total_size <= INT64_MAX) {
    index.total_bytes = static_cast<std::int64_t>(*total_size);
  }
  return index;
}

Result<Checkpoint> Checkpoint::open(const std::string& folder, bool populate) {
  std::error_code failure;
  const std::filesystem::path path(folder);
  if (!std::filesystem::exists(path / kSingleFile, failure)) {
    if (std::filesystem::exists(path / kIndexFile, failure)) return open_shards(folder, populate);
    return not_found(folder + ": no model here, expected " + kSingleFile + " or " + kIndexFile);
  }
  auto file = open_in_folder(folder, kSingleFile, populate);
  if (!file) return file.error();
  Checkpoint checkpoint;
  checkpoint.files_.push_back(std::move(*file));
  for (const TensorInfo& tensor : checkpoint.files_[0].header().tensors) {
    checkpoint.file_of_.emplace(tensor.name, 0);
  }
  return checkpoint;
}

Result<Checkpoint> Checkpoint::open_shards(const std::string& folder, bool populate) {
  const std::string index_path = folder + "/" + kIndexFile;
  const auto text = read_text_file(index_path, kIndexBytesMax);
  if (!text) return text.error();
  auto index = parse_shard_index(*text);
  if (!index) {
    Error error = index.error();
    error.message = index_path + ": " + error.message;
    return error;
  }
  Checkpoint checkpoint;
  for (const std::string& name : index->files) {
    auto file = open_in_folder(folder, name, populate);
    if (!file) return file.error();
    checkpoint.files_.push_back(std::move(*file));
  }
  if (auto error = checkpoint.check_shards(*index)) {
    error->message = index_path + ": " + error->message;
    return *error;
  }
  std::int64_t total_bytes = 0;
  for (const SafetensorsFile& file : checkpoint.files_) {
    for (const TensorInfo& tensor : file.header().tensors) total_bytes += tensor.length_bytes;
  }
  if (index->total_bytes >= 0 && index->total_bytes != total_bytes) {
    checkpoint.warnings_.push_back(index_path + ": total_size says " +
                                   std::to_string(index->total_bytes) + " bytes, the shards hold " +
                                   std::to_string(total_bytes));
  }
  checkpoint.file_of_ = std::move(index->shard_of);
  return checkpoint;
}

// The index and the shards list the same tensors, each in the same file.
std::optional<Error> Checkpoint::check_shards(const ShardIndex& index) const {
  for (const auto& [name, shard] : index.shard_of) {
    if (files_[shard].find(name) == nullptr) {
      return invalid_argument("tensor " + printable(name) + " is not in " + index.files[shard]);
    }
  }
  for (std::size_t shard = 0; shard < files_.size(); ++shard) {
    for (const TensorInfo& tensor : files_[shard].header().tensors) {
      const auto it = index.shard_of.find(tensor.name);
      if (it != index.shard_of.end() && it->second == shard) continue;
      const std::string place =
          "tensor " + printable(tensor.name) + " of " + index.files[shard] + " is not in the index";
      if (it == index.shard_of.end()) return invalid_argument(place);
      return invalid_argument(place + ", which names " + index.files[it->second] + " for it");
    }
  }
  return std::nullopt;
}

Result<kernels::TensorView> Checkpoint::tensor(std::string_view name, kernels::DType dtype,
                                               const std::vector<std::int64_t>& shape) const {
  const auto view = tensor(name);
  if (!view) return view.error();
  const auto rank = static_cast<std::size_t>(view->n_dimensions);
  const bool same_shape =
      rank == shape.size() && std::equal(shape.begin(), shape.end(), view->shape.begin(),
                                         [](std::int64_t expected, std::int64_t got) {
                                           return expected == -1 || expected == got;
                                         });
  if (view->dtype != dtype || !same_shape) {
    return invalid_argument("tensor " + printable(name) + ": expected " +
                            describe(dtype, shape, shape.size()) + ", got " +
                            describe(view->dtype, view->shape, rank));
  }
  return *view;
}

Result<kernels::TensorView> Checkpoint::tensor(std::string_view name) const {
  const auto it = file_of_.find(std::string(name));
  if (it == file_of_.end()) {
    return not_found("tensor " + printable(name) + " is not in the model");
  }
  return files_[it->second].tensor(name);
}

const SafetensorsFile* Checkpoint::file_of(const std::string& name) const {
  const auto found = file_of_.find(name);
  return found == file_of_.end() ? nullptr : &files_[found->second];
}

bool Checkpoint::has(std::string_view name) const {
  return file_of_.contains(std::string(name));
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  names.reserve(file_of_.size());
  for (const auto& [name, file] : file_of_) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

std::int64_t Checkpoint::bytes() const {
  std::int64_t bytes = 0;
  for (const SafetensorsFile& file : files_) {
    const auto& header = file.header();
    bytes += header.data_begin_bytes;
    for (const TensorInfo& tensor : header.tensors) bytes += tensor.length_bytes;
  }
  return bytes;
}

}  // namespace engramd::engine
