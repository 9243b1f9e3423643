#include "server/model_folder.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace engramd::server {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ModelFolderTest : public testing::Test {
 protected:
  ModelFolderTest() : root_(fs::path(testing::TempDir()) / "engramd-model-folder") {
    fs::remove_all(root_);
    add_model("first/tiny");
    add_model("second/tiny");
    add_model("prefix/share/engramd/models/engram-nano");
    fs::create_directories(root_ / "prefix/bin");
  }
  ~ModelFolderTest() override { fs::remove_all(root_); }

  void add_model(const std::string& path) const {
    fs::create_directories(root_ / path);
    std::ofstream(root_ / path / "config.json") << "{}";
  }
  Result<std::string> find(const std::string& name) const {
    config::ModelOptions options;
    options.name = name;
    options.search_path = (root_ / "first").string() + ":" + (root_ / "second").string();
    return find_model_folder(options, (root_ / "prefix/bin").string());
  }

  const fs::path root_;
};

TEST_F(ModelFolderTest, TheBundledModelIsBesideTheProgram) {
  EXPECT_EQ(find("").value(), (root_ / "prefix/share/engramd/models/engram-nano").string());
}

TEST_F(ModelFolderTest, NamesAreSearchedInOrderAndPathsTakenAsTheyAre) {
  EXPECT_EQ(find("tiny").value(), (root_ / "first/tiny").string());
  EXPECT_EQ(find((root_ / "second/tiny").string()).value(), (root_ / "second/tiny").string());
}

TEST_F(ModelFolderTest, AnUnknownNameIsTheBundledModelWithANote) {
  config::ModelOptions options;
  options.name = "large";
  const auto folder = find("large");
  ASSERT_TRUE(folder.has_value());
  EXPECT_EQ(folder.value(), (root_ / "prefix/share/engramd/models/engram-nano").string());
  EXPECT_THAT(missing_model(options, folder.value()), HasSubstr("large is in no model folder"));
  options.name = "tiny";
  EXPECT_EQ(missing_model(options, find("tiny").value()), "");
  options.name = "";
  EXPECT_EQ(missing_model(options, find("").value()), "");
}

TEST_F(ModelFolderTest, APathMustBeAModel) {
  EXPECT_TRUE(find("..").has_error());
  EXPECT_EQ(find("no/such").error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(find((root_ / "second/tiny/").string() + "//").value(),
            (root_ / "second/tiny").string());
}

}  // namespace
}  // namespace engramd::server
