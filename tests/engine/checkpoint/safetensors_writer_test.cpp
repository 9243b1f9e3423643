#include "engine/checkpoint/safetensors_writer.h"

#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/checkpoint/temporary_folder.h"

namespace engramd::engine {
namespace {

using testing::HasSubstr;

std::size_t n_files(const std::filesystem::path& folder) {
  const std::filesystem::directory_iterator files(folder);
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

TEST(SafetensorsWriter, WhatIsWrittenInPiecesIsReadBack) {
  TemporaryFolder folder;
  const std::string path = (folder.path / "model.safetensors").string();
  auto writer = SafetensorsWriter::create(
      path, {{"odd", "U8", {3}}, {"pair \"x\"", "F32", {2, 1}}, {"empty", "BF16", {0, 4}}},
      {{"format", "pt"}});
  ASSERT_TRUE(writer) << writer.error().message;
  ASSERT_EQ(writer->tensors().size(), 3u);
  EXPECT_EQ(writer->tensors().back().name, "odd");  // narrow elements last: all data is aligned
  EXPECT_FALSE(std::filesystem::exists(path));
  const float pair[2] = {3.0f, -0.5f};
  const auto bytes = std::as_bytes(std::span(pair));
  ASSERT_TRUE(writer->append(bytes.first(3)));
  ASSERT_TRUE(writer->append(bytes.subspan(3)));
  EXPECT_THAT(writer->finish().error().message, HasSubstr("bytes in all"));
  ASSERT_TRUE(writer->append(std::as_bytes(std::span("abc", 3))));
  EXPECT_THAT(writer->append(bytes).error().message, HasSubstr("more data"));
  ASSERT_TRUE(writer->finish());

  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->header().metadata.at("format"), "pt");
  EXPECT_EQ(file->tensor("pair \"x\"")->as<float>()[1], -0.5f);
  EXPECT_EQ(std::memcmp(file->tensor("odd")->data, "abc", 3), 0);
  EXPECT_EQ(file->tensor("empty")->n_elements(), 0);
  EXPECT_EQ(file->header().data_begin_bytes % 8, 0);
  EXPECT_EQ(n_files(folder.path), 1u);
}

TEST(SafetensorsWriter, AnUnfinishedFileDisappearsAndTheOldOneStays) {
  TemporaryFolder folder;
  const std::string path = (folder.path / "a.safetensors").string();
  for (const float value : {1.0f, 2.0f}) {
    auto writer = SafetensorsWriter::create(path, {{"a", "F32", {1}}});
    ASSERT_TRUE(writer) << writer.error().message;
    ASSERT_TRUE(writer->append(std::as_bytes(std::span(&value, 1))));
    if (value == 2.0f) continue;  // destroyed before it is finished
    ASSERT_TRUE(writer->finish());
  }
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file);
  EXPECT_EQ(file->tensor("a")->as<float>()[0], 1.0f);
  EXPECT_EQ(n_files(folder.path), 1u);
}

TEST(SafetensorsWriter, RefusesWhatTheReaderWouldRefuse) {
  TemporaryFolder folder;
  const std::string path = (folder.path / "a.safetensors").string();
  const std::vector<std::vector<TensorSpec>> bad = {
      {{"a", "F32", {1}}, {"a", "U8", {1}}},
      {{"a", "F32", {1}}, {"b", "U8", {1}}, {"a", "F32", {1}}},
      {{"a", "F33", {1}}},
      {{"a", "F4", {3}}},
      {{"a", "F32", {-1}}},
      {{"a", "F32", {std::int64_t{1} << 32, std::int64_t{1} << 32}}},
      {{"a", "U8", {1, 1, 1, 1, 1, 1, 1, 1, 1}}},
      {{"__metadata__", "U8", {1}}},
      {{std::string("a\0b", 3), "U8", {1}}},
      {{"\xFF", "U8", {1}}}};
  for (const auto& specs : bad) EXPECT_FALSE(SafetensorsWriter::create(path, specs));
  EXPECT_FALSE(SafetensorsWriter::create((folder.path / "no/a").string(), {{"a", "U8", {1}}}));
  EXPECT_EQ(n_files(folder.path), 0u);
}

}  // namespace
}  // namespace engramd::engine
