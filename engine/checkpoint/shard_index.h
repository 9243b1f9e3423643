// Checkpoint: all tensors of a model folder, from model.safetensors or from the shards that
// model.safetensors.index.json lists; of both, the single file is taken, as transformers does.
// An index is untrusted: no shard name leaves the folder, and each tensor stands in exactly the
// shard that the index names. Shards that the index does not name are not opened. Symbolic links
// are the folder's owner's word, not the index's: they are followed. Immutable after open; owns the
// mappings that its TensorViews point into.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "config/result.h"
#include "engine/checkpoint/safetensors.h"

namespace engramd::engine {

struct ShardIndex {
  std::vector<std::string> files;                         // distinct, in order of first mention
  std::unordered_map<std::string, std::size_t> shard_of;  // tensor name -> index into files
  std::int64_t total_bytes = -1;  // metadata.total_size; -1: absent or no integer
};
Result<ShardIndex> parse_shard_index(std::string_view json);  // pure: the fuzz target

class Checkpoint {
 public:
  static Result<Checkpoint> open(const std::string& folder, bool populate = false);

  // Asking for a tensor validates it: wrong dtype or shape is an error "expected ... got ...".
  // An extent of -1 in `shape` accepts any size.
  Result<kernels::TensorView> tensor(std::string_view name, kernels::DType dtype,
                                     const std::vector<std::int64_t>& shape) const;
  Result<kernels::TensorView> tensor(std::string_view name) const;
  bool has(std::string_view name) const;
  const SafetensorsFile* file_of(const std::string& name) const;  // that holds it, or nullptr
  std::vector<std::string> names() const;                         // sorted
  std::int64_t bytes() const;                                     // sum over the files
  // What is odd but harmless (a wrong total_size); one line each, for the log.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  static Result<Checkpoint> open_shards(const std::string& folder, bool populate);
  std::optional<Error> check_shards(const ShardIndex& index) const;

  std::vector<SafetensorsFile> files_;
  std::unordered_map<std::string, std::size_t> file_of_;  // tensor name -> index into files_
  std::vector<std::string> warnings_;
};

}  // namespace engramd::engine
