// SafetensorsWriter: writes one safetensors file as a stream, so that a table of many gigabytes
// needs no memory: the header first, then the bytes of every tensor in the order of tensors().
// The file appears under its name only after finish() (temporary name in the same folder, fsync,
// rename); a writer that is destroyed earlier leaves nothing behind. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "config/result.h"
#include "engine/checkpoint/safetensors.h"

namespace engramd::engine {

struct TensorSpec {
  std::string name;
  std::string dtype;  // the format's spelling
  std::vector<std::int64_t> shape;
};

class SafetensorsWriter {
 public:
  // Refuses what parse_safetensors_header would refuse (duplicate names, unknown dtypes ...).
  static Result<SafetensorsWriter> create(const std::string& path, std::vector<TensorSpec> specs,
                                          const std::map<std::string, std::string>& metadata = {});
  SafetensorsWriter(SafetensorsWriter&& other) noexcept;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = delete;
  ~SafetensorsWriter();

  // In file order: wide elements first, so that all data is aligned, then by name.
  const std::vector<TensorInfo>& tensors() const { return header_.tensors; }
  // The next bytes of the data, in pieces of any size; tensors follow without a gap.
  Result<void> append(std::span<const std::byte> bytes);
  // Error: fewer bytes were appended than the header promises, or the file system said no.
  Result<void> finish();

 private:
  SafetensorsWriter(std::string path, SafetensorsHeader header);

  std::string path_;
  std::string temporary_path_;
  SafetensorsHeader header_;
  std::int64_t file_bytes_ = 0;     // when complete
  std::int64_t written_bytes_ = 0;  // so far
  int descriptor_ = -1;
};

}  // namespace engramd::engine
