// RegularFile: an open file descriptor that is known to be a regular file, so that a model folder
// with a FIFO, a device or a directory under a file's name can neither block nor surprise us.
// Movable owner of the descriptor; reads are positional, any thread may call them.
#pragma once

#include <cstdint>
#include <string>

#include "config/result.h"

namespace engramd::engine {

class RegularFile {
 public:
  static Result<RegularFile> open(const std::string& path);
  RegularFile(RegularFile&& other) noexcept;
  RegularFile& operator=(RegularFile&& other) noexcept;
  ~RegularFile();

  int descriptor() const { return descriptor_; }
  std::int64_t bytes() const { return bytes_; }  // at open
  // Exactly `length_bytes` bytes; a file that has become shorter is an error.
  Result<std::string> read(std::int64_t offset_bytes, std::int64_t length_bytes) const;

 private:
  RegularFile(std::string path, int descriptor);
  std::string path_;
  int descriptor_ = -1;
  std::int64_t bytes_ = 0;
};

// A whole text file (config.json and its like), refused above `bytes_max`.
Result<std::string> read_text_file(const std::string& path, std::int64_t bytes_max);

}  // namespace engramd::engine
