// House rules that a machine can read off the text: sizes, words that are not used, opening
// comments. A rule that makes the code worse is dropped here, with the reason in the commit.
#include <map>
#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tidy/source_tree.h"

namespace engramd::tidy {
namespace {

constexpr std::size_t kFileLinesMax = 800;
// As in .clang-format, which leaves long literals alone. Tests may be wider: one JSON message, one
// line.
constexpr std::size_t kLineWidthMax = 100;

// A file that may be longer than kFileLinesMax, its reason beside it. The number only ever shrinks.
const std::map<std::string, std::size_t> kFileLinesRatchet = {};

struct BannedToken {
  std::string token;
  std::vector<std::string> except;  // paths that start with one of these may use it
  std::string reason;
};
const std::vector<BannedToken> kBannedTokens = {
    {"sleep_for", {}, "waits are for an event, with a deadline"},
    {"sleep_until", {}, "waits are for an event, with a deadline"},
    {"usleep", {}, "waits are for an event, with a deadline"},
    {"nanosleep", {}, "waits are for an event, with a deadline"},
    {"detach()", {}, "every thread is joined"},
    {"catch (...)", {}, "an exception is caught by type, where the library is called"},
    {"getenv", {"config/", "tests/"}, "the environment is read by the option table"},
    {"std::cout", {"server/", "tests/"}, "stdout is the MCP protocol or a command's answer"},
    {"printf", {"server/", "tests/"}, "stdout is the MCP protocol or a command's answer"},
    {"puts", {"server/", "tests/"}, "stdout is the MCP protocol or a command's answer"},
    {"stdout", {"server/", "tests/"}, "stdout is the MCP protocol or a command's answer"},
    {"std::cerr", {"server/", "tests/"}, "only server logs; a module returns an Error"},
    {"stderr", {"server/", "tests/", "config/assert.h"}, "only server logs"},
};

// Work that is left, and places of the machine a line was written on, stay out of the tree.
const std::vector<std::string> kBannedWords = {
    "TO"
    "DO",
    "FIX"
    "ME",
    "/wo"
    "rk/",
    "/home"
    "/",
    "registry.npm"
    "js.org",
    "deb.debian"
    ".org"};

std::string place(const SourceFile& file, std::size_t line) {
  return file.path + ":" + std::to_string(line + 1) + ": ";
}

std::size_t n_characters(const std::string& utf8) {
  std::size_t n = 0;
  for (const char c : utf8) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  return n;
}

std::vector<std::string> size_violations(const SourceFile& file) {
  std::vector<std::string> violations;
  const auto ratchet = kFileLinesRatchet.find(file.path);
  const std::size_t lines_max =
      ratchet != kFileLinesRatchet.end() ? ratchet->second : kFileLinesMax;
  if (file.lines.size() > lines_max) {
    violations.push_back(file.path + ": " + std::to_string(file.lines.size()) + " lines, at most " +
                         std::to_string(lines_max) + ": split it");
  }
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    if (!file.is_in("tests/") && n_characters(file.lines[i]) > kLineWidthMax) {
      violations.push_back(place(file, i) + "wider than " + std::to_string(kLineWidthMax));
    }
  }
  return violations;
}

std::vector<std::string> token_violations(const SourceFile& file) {
  std::vector<std::string> violations;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const std::string code = code_of(file.lines[i]);
    for (const BannedToken& banned : kBannedTokens) {
      bool excepted = false;
      for (const std::string& path : banned.except) excepted = excepted || file.is_in(path);
      if (!excepted && has_token(code, banned.token)) {
        violations.push_back(place(file, i) + banned.token + ": " + banned.reason);
      }
    }
  }
  return violations;
}

std::vector<std::string> word_violations(const SourceFile& file) {
  std::vector<std::string> violations;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    for (const std::string& word : kBannedWords) {
      if (has_token(file.lines[i], word)) violations.push_back(place(file, i) + word);
    }
  }
  return violations;
}

// "server::Connection" of a line that defines a class others can see; empty: it does not.
std::string defined_class(const std::string& line, const std::string& name_space) {
  static const std::regex definition(R"(^(?:class|struct) (\w+)(?: final)?(?: :[^:].*| \{.*)?$)");
  std::smatch match;
  if (!std::regex_match(line, match, definition)) return "";
  return name_space + "::" + match[1].str();
}

// Where each class of the product is defined, but for those of unnamed namespaces.
std::map<std::string, std::vector<std::string>> class_definitions() {
  std::map<std::string, std::vector<std::string>> places;
  for (const SourceFile& file : read_source_tree()) {
    if (!file.is_cpp() || file.is_in("tests/")) continue;
    std::string name_space;
    bool unnamed = false;
    for (const std::string& line : file.lines) {
      if (line == "namespace {") unnamed = true;
      if (line == "}  // namespace") unnamed = false;
      if (line.starts_with("namespace ") && line.ends_with(" {") && line != "namespace {") {
        name_space = line.substr(10, line.size() - 12);
      }
      const std::string name = unnamed ? "" : defined_class(line, name_space);
      if (!name.empty()) places[name].push_back(file.path);
    }
  }
  return places;
}

// Two classes of one name are one class to the linker, which keeps the functions of either: nothing
// says so, and one of the two then works on the other's members.
TEST(SourceRules, EveryClassHasANameOfItsOwn) {
  const auto places = class_definitions();
  EXPECT_TRUE(places.contains("engramd::server::HttpConnection"));  // or nothing was looked at
  for (const auto& [name, files] : places) {
    EXPECT_EQ(files.size(), 1U) << name << " is defined in\n" << listing(files);
  }
}

TEST(SourceRules, FilesAndLinesHaveTheHouseSize) {
  for (const SourceFile& file : read_source_tree()) {
    if (!file.is_cpp()) continue;
    const std::vector<std::string> violations = size_violations(file);
    EXPECT_TRUE(violations.empty()) << listing(violations);
  }
}

TEST(SourceRules, TheRatchetNamesOnlyLongFiles) {
  const std::vector<SourceFile> files = read_source_tree();
  for (const auto& [path, lines_max] : kFileLinesRatchet) {
    EXPECT_GT(lines_max, kFileLinesMax) << path;
    EXPECT_TRUE(exists_in_tree(path)) << path;
  }
}

TEST(SourceRules, BannedTokensAreNotUsed) {
  for (const SourceFile& file : read_source_tree()) {
    if (!file.is_cpp()) continue;
    const std::vector<std::string> violations = token_violations(file);
    EXPECT_TRUE(violations.empty()) << listing(violations);
  }
}

TEST(SourceRules, NoWorkIsLeftAndNoForeignPlaceIsNamed) {
  for (const SourceFile& file : read_source_tree()) {
    const std::vector<std::string> violations = word_violations(file);
    EXPECT_TRUE(violations.empty()) << listing(violations);
  }
}

TEST(SourceRules, HeadersOpenWithACommentAndAreIncludedOnce) {
  for (const SourceFile& file : read_source_tree()) {
    if (!file.is_header()) continue;
    ASSERT_FALSE(file.lines.empty()) << file.path;
    EXPECT_TRUE(file.lines[0].starts_with("// ")) << file.path << " says not what it is";
    std::size_t i = 0;
    while (i < file.lines.size() && (file.lines[i].starts_with("//") || file.lines[i].empty())) ++i;
    EXPECT_TRUE(i < file.lines.size() && file.lines[i] == "#pragma once") << file.path;
  }
}

TEST(SourceRules, AViolationIsFound) {
  EXPECT_EQ(token_violations({"engine/a.cpp", {"std::this_thread::sleep_for(1s);"}}).size(), 1U);
  EXPECT_EQ(token_violations({"engine/a.cpp", {"x();  // not sleep_for", "f(\"stdout\");"}}).size(),
            0U);
  EXPECT_EQ(token_violations({"engine/a.cpp", {"std::snprintf(b, n, f);"}}).size(), 0U);
  EXPECT_EQ(token_violations({"engine/a.cpp", {"std::printf(f);", "} catch (...) {"}}).size(), 2U);
  EXPECT_EQ(token_violations({"server/a.cpp", {"std::getenv(n);", "std::cout << a;"}}).size(), 1U);
  EXPECT_EQ(word_violations({"README.md",
                             {"see /wo"
                              "rk/x"}})
                .size(),
            1U);
  EXPECT_EQ(size_violations({"a.cpp", {std::string(101, 'x'), std::string(100, 'x')}}).size(), 1U);
  EXPECT_EQ(size_violations({"a.cpp", std::vector<std::string>(801)}).size(), 1U);
}

}  // namespace
}  // namespace engramd::tidy
