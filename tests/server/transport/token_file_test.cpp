#include "server/transport/token_file.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace engramd::server {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class TokenFileTest : public testing::Test {
 protected:
  TokenFileTest() : folder_(testing::TempDir() + "/engramd-token-test") { fs::remove_all(folder_); }
  ~TokenFileTest() override { fs::remove_all(folder_); }
  void write(const std::string& text, mode_t mode) {
    fs::create_directories(folder_);
    std::ofstream(path()) << text;
    ::chmod(path().c_str(), mode);
  }
  std::string path() const { return folder_ + "/token"; }
  std::string message() const {
    const auto token = read_or_create_token(path());
    return token.has_error() ? token.error().message : "read";
  }

  const std::string folder_;
};

TEST_F(TokenFileTest, IsMadeOnceForItsOwnerAlone) {
  const auto made = read_or_create_token(path());
  ASSERT_TRUE(made.has_value());
  EXPECT_THAT(*made, testing::MatchesRegex("[A-Za-z0-9_-]{43}"));
  struct stat status {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(*read_or_create_token(path()), *made);
  const auto n_files = std::distance(fs::directory_iterator(folder_), fs::directory_iterator());
  EXPECT_EQ(n_files, 1);
  fs::remove(path());
  EXPECT_NE(*read_or_create_token(path()), *made);
}

TEST_F(TokenFileTest, TakesATokenOfTheUsersOwn) {
  write("chosen-by-the-user\r\n", 0600);
  EXPECT_EQ(*read_or_create_token(path()), "chosen-by-the-user");
}

TEST_F(TokenFileTest, RefusesWhatOthersMayRead) {
  for (const mode_t mode : {0640, 0604, 0620, 0666}) {
    write("chosen-by-the-user\n", mode);
    EXPECT_THAT(message(), HasSubstr("`chmod 600` it")) << mode;
  }
}

TEST_F(TokenFileTest, RefusesLinksFoldersAndNoTokens) {
  fs::create_directories(folder_);
  fs::create_symlink("elsewhere", path());
  EXPECT_THAT(message(), HasSubstr("is a link"));
  fs::remove(path());
  fs::create_directory(path());
  EXPECT_THAT(message(), HasSubstr("expected a regular file"));
  fs::remove(path());
  for (const char* bad : {"", "short\n", "two words are no token\n", "two-lines-are\nno-token\n"}) {
    write(bad, 0600);
    EXPECT_THAT(message(), HasSubstr("expected one line")) << bad;
  }
}

TEST_F(TokenFileTest, SaysWhenTheFolderCannotBeWritten) {
  fs::create_directories(folder_);
  std::ofstream(folder_ + "/file") << "x";
  const auto token = read_or_create_token(folder_ + "/file/token");
  ASSERT_TRUE(token.has_error());
}

}  // namespace
}  // namespace engramd::server
