// Reads a gzip file of the test data.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

namespace engramd::test {

inline std::string read_gzip_file(const std::string& path) {
  std::string text;
  const gzFile file = gzopen(path.c_str(), "rb");
  EXPECT_NE(file, nullptr) << path;
  std::vector<char> buffer(1 << 20);
  int n = 0;
  while ((n = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()))) > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  EXPECT_EQ(n, 0) << path;
  gzclose(file);
  return text;
}

}  // namespace engramd::test
