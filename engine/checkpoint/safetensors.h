// safetensors files: mapped read-only, validated before anything is trusted. A file is untrusted
// input; after open() every TensorView lies inside the mapping. Immutable after open: any thread
// reads. Format: huggingface/safetensors README (8-byte length, JSON header, data).
// The mapping is private and read-only. Replacing a file by rename is safe while it is open (the
// old one stays mapped); cutting it in place is not: touching a page beyond the new end raises
// SIGBUS, which ends the process. open() itself reads the header with pread and is not exposed to
// that. Not here: which tensors a model needs (weight_binding), shards (shard_index).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/result.h"
#include "kernels/tensor_view.h"

namespace engramd::engine {

// Bits of one element ("F4": 4, "BF16": 16); 0 for a spelling that the format does not have.
int bits_of_dtype(std::string_view dtype);
std::string_view spelling_of(kernels::DType dtype);

struct TensorInfo {
  std::string name;
  std::string dtype;                // the format's own spelling: "BF16", "F8_E4M3", "F4" ...
  std::vector<std::int64_t> shape;  // rank 0..8
  std::int64_t begin_bytes = 0;     // in the file
  std::int64_t length_bytes = 0;
};

// Parses and validates the header of a file of `file_bytes` bytes, of which `head` holds the first
// bytes (all of the header at least). Pure: the fuzz target. Errors are one line and name the
// tensor.
struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;              // ascending offset
  std::map<std::string, std::string> metadata;  // __metadata__
  std::int64_t data_begin_bytes = 0;
};
Result<SafetensorsHeader> parse_safetensors_header(std::string_view head, std::int64_t file_bytes);

class SafetensorsFile {
 public:
  // Refuses anything that is not a regular file. populate: fault all pages in now.
  static Result<SafetensorsFile> open(const std::string& path, bool populate = false);
  SafetensorsFile(SafetensorsFile&&) noexcept;
  SafetensorsFile& operator=(SafetensorsFile&&) noexcept;
  ~SafetensorsFile();

  const std::string& path() const;
  const SafetensorsHeader& header() const;
  const TensorInfo* find(std::string_view name) const;
  // Error: absent, a dtype without a kernels::DType (sub-byte, complex, FNUZ), or rank above
  // kernels::kMaxDimensions. The view is always aligned to its element: a tensor that is not
  // aligned in the file (writers pad the header, so this is rare) was copied to memory by open().
  Result<kernels::TensorView> tensor(std::string_view name) const;

 private:
  struct Impl;
  explicit SafetensorsFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace engramd::engine
