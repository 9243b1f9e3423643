#include "engine/checkpoint/shard_index.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/engine/checkpoint/temporary_folder.h"

namespace engramd::engine {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const fs::path kFiles = fs::path(ENGRAMD_TEST_DATA) / "safetensors/files";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";

// The two shards of the fixture and this index.
void write_sharded(const fs::path& folder, const std::string& index) {
  for (const char* name : {kFirst, kSecond})
    fs::copy_file(kFiles / "index-valid" / name, folder / name);
  std::ofstream(folder / kIndex) << index;
}

std::string open_error(const fs::path& folder) {
  const auto checkpoint = Checkpoint::open(folder.string());
  return checkpoint ? "opened" : checkpoint.error().message;
}

TEST(ShardIndex, KeepsTheOrderOfFirstMention) {
  const auto index = parse_shard_index(
      R"({"metadata":{"total_size":7},"weight_map":{"x":"2.st","y":"1.st","z":"2.st"}})");
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_THAT(index->files, ElementsAre("2.st", "1.st"));
  EXPECT_EQ(index->shard_of.at("z"), 0u);
  EXPECT_EQ(index->total_bytes, 7);
  const auto odd = parse_shard_index(R"({"metadata":{"total_size":7.5},"weight_map":{}})");
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->total_bytes, -1);
}

TEST(ShardIndex, NamesThatAreNoPlainFileNames) {
  for (const char* name : {"", ".", "..", "a/b", "/a", "..\\\\a", "a\\nb", "a\\u0000b"}) {
    const auto index = parse_shard_index(std::string(R"({"weight_map":{"a":")") + name + "\"}}");
    ASSERT_FALSE(index) << name;
    EXPECT_THAT(index.error().message, HasSubstr("plain file name"));
  }
}

TEST(Checkpoint, OpensShardsAndChecksWhatIsAskedFor) {
  const auto checkpoint = Checkpoint::open((kFiles / "index-valid").string(), true);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_THAT(checkpoint->names(), ElementsAre("a", "b"));
  EXPECT_TRUE(checkpoint->warnings().empty());
  EXPECT_EQ(checkpoint->bytes(), 96 + 72);
  EXPECT_TRUE(checkpoint->has("b"));
  EXPECT_FALSE(checkpoint->has("c"));
  EXPECT_TRUE(checkpoint->tensor("a", kernels::DType::kF32, {2, 3}));
  EXPECT_TRUE(checkpoint->tensor("a", kernels::DType::kF32, {-1, 3}));
  EXPECT_EQ(checkpoint->tensor("a", kernels::DType::kBF16, {2, -1}).error().message,
            "tensor a: expected BF16 [2,any], got F32 [2,3]");
  EXPECT_EQ(checkpoint->tensor("a", kernels::DType::kF32, {6}).error().message,
            "tensor a: expected F32 [6], got F32 [2,3]");
  EXPECT_EQ(checkpoint->tensor("c", kernels::DType::kF32, {6}).error().kind, ErrorKind::kNotFound);
}

TEST(Checkpoint, WrongTotalSizeIsAWarning) {
  const auto checkpoint = Checkpoint::open((kFiles / "index-wrong-total").string());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  ASSERT_EQ(checkpoint->warnings().size(), 1u);
  EXPECT_THAT(checkpoint->warnings()[0], HasSubstr("total_size says 1 bytes, the shards hold 32"));
}

TEST(Checkpoint, UnlistedShardIsNotOpened) {
  TemporaryFolder folder;
  write_sharded(folder.path, std::string(R"({"weight_map":{"a":")") + kFirst + "\"}}");
  const auto checkpoint = Checkpoint::open(folder.path.string());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_THAT(checkpoint->names(), ElementsAre("a"));
}

TEST(Checkpoint, TensorInAnotherShardThanNamed) {
  TemporaryFolder folder;
  fs::copy_file(kFiles / "valid.safetensors", folder.path / kFirst);  // holds a and b
  fs::copy_file(kFiles / "index-valid" / kSecond, folder.path / kSecond);
  std::ofstream(folder.path / kIndex)
      << R"({"weight_map":{"a":")" << kFirst << R"(","b":")" << kSecond << "\"}}";
  EXPECT_THAT(open_error(folder.path), HasSubstr(std::string("tensor b of ") + kFirst +
                                                 " is not in the index, which names " + kSecond));
}

// As Hugging Face's cache lays a model out: models--OWNER--NAME/snapshots/REVISION/FILE is a link
// to
// ../../blobs/HASH.
fs::path write_snapshot(const fs::path& cache, const fs::path& files) {
  const fs::path model = cache / "models--owner--name";
  const fs::path snapshot = model / "snapshots/0123abc";
  fs::create_directories(model / "blobs");
  fs::create_directories(snapshot);
  int hash = 0;
  for (const auto& entry : fs::directory_iterator(files)) {
    const std::string blob = "b10b" + std::to_string(hash++);
    fs::copy_file(entry.path(), model / "blobs" / blob);
    fs::create_symlink(fs::path("../../blobs") / blob, snapshot / entry.path().filename());
  }
  return snapshot;
}

TEST(Checkpoint, OpensASnapshotOfTheHuggingFaceCache) {
  TemporaryFolder cache;
  const fs::path snapshot = write_snapshot(cache.path, kFiles / "index-valid");
  ASSERT_TRUE(fs::is_symlink(snapshot / kFirst));
  const auto checkpoint = Checkpoint::open(snapshot.string());
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  EXPECT_THAT(checkpoint->names(), ElementsAre("a", "b"));

  TemporaryFolder single;
  fs::copy_file(kFiles / "valid.safetensors", single.path / "blob");
  fs::create_directory(single.path / "snapshot");
  fs::create_symlink("../blob", single.path / "snapshot/model.safetensors");
  EXPECT_EQ(open_error(single.path / "snapshot"), "opened");
}

TEST(Checkpoint, ALinkMustLeadToARegularFile) {
  TemporaryFolder cache;
  const fs::path snapshot = write_snapshot(cache.path, kFiles / "index-valid");
  const fs::path pipe = cache.path / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const fs::path& target : {pipe, cache.path, fs::path("/dev/zero")}) {
    fs::remove(snapshot / kFirst);
    fs::create_symlink(target, snapshot / kFirst);
    EXPECT_THAT(open_error(snapshot), HasSubstr("expected a regular file")) << target;
  }
  fs::remove(snapshot / kFirst);
  fs::create_symlink("../../blobs/not-fetched", snapshot / kFirst);
  EXPECT_THAT(open_error(snapshot), HasSubstr(std::string("shard ") + kFirst + " is missing"));
  fs::remove(snapshot / kFirst);
  fs::create_symlink(kFirst, snapshot / kFirst);  // to itself
  EXPECT_THAT(open_error(snapshot), HasSubstr("cannot open"));
}

TEST(Checkpoint, TheSingleFileComesFirst) {
  TemporaryFolder folder;
  write_sharded(folder.path, "not JSON");
  EXPECT_THAT(open_error(folder.path), HasSubstr("index is not valid JSON"));
  fs::copy_file(kFiles / "valid.safetensors", folder.path / "model.safetensors");
  EXPECT_EQ(open_error(folder.path), "opened");
}

TEST(Checkpoint, EmptyAndMissingFolders) {
  TemporaryFolder folder;
  EXPECT_THAT(open_error(folder.path), HasSubstr("expected model.safetensors or"));
  EXPECT_THAT(open_error(folder.path / "none"), HasSubstr("no model here"));
}

}  // namespace
}  // namespace engramd::engine
