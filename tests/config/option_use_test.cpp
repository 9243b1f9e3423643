// An option that nothing reads says so (OptionRow::no_effect_yet), and no other says it. Read off
// the sources: which field of Options a row fills, and which fields the rest of the program reads.
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "config/option_table.h"

namespace engramd::config {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void for_each_match(const std::string& text, const std::string& pattern,
                    const std::function<void(const std::smatch&)>& visit) {
  const std::regex regex(pattern);
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) visit(*at);
}

const fs::path kSource = ENGRAMD_SOURCE_DIR;

// Key of a row -> "section.member" of Options.
std::map<std::string, std::string> fields_of_rows() {
  std::map<std::string, std::string> fields;
  for (const char* file : {"config/model_rows.cpp", "config/service_rows.cpp"}) {
    for_each_match(
        text_of(kSource / file),
        R"re(\.key = "([^"]+)",\s+\.member = \w+\(&O::(\w+), &\w+::(\w+))re",
        [&](const std::smatch& row) { fields[row[1]] = row[2].str() + "." + row[3].str(); });
  }
  return fields;
}

// Name of a struct -> its member in Options.
std::map<std::string, std::string> sections() {
  std::map<std::string, std::string> members;
  const std::string text = text_of(kSource / "config/options.h");
  for_each_match(text.substr(text.find("struct Options {")), R"(  (\w+) (\w+);)",
                 [&](const std::smatch& member) { members[member[1]] = member[2]; });
  return members;
}

// "section.member" of every field that a source reads, and every text in quotes (a row's key there
// means that its value is taken through the table).
std::set<std::string> reads_of(const std::string& text) {
  std::set<std::string> reads;
  for_each_match(text, R"(options\.(\w+)\.(\w+))", [&](const std::smatch& read) {
    reads.insert(read[1].str() + "." + read[2].str());
  });
  for_each_match(text, R"re("([a-z_.]+)")re",
                 [&](const std::smatch& quoted) { reads.insert(quoted[1]); });
  const auto members = sections();
  for_each_match(text, R"(config::(\w+)& (\w+))", [&](const std::smatch& variable) {
    const auto section = members.find(variable[1]);
    if (section == members.end()) return;
    for_each_match(text, R"(\b)" + variable[2].str() + R"(\.(\w+))", [&](const std::smatch& read) {
      reads.insert(section->second + "." + read[1].str());
    });
  });
  return reads;
}

std::set<std::string> reads_outside_config() {
  std::set<std::string> reads;
  for (const char* room : {"kernels", "engine", "mcp", "server"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kSource / room)) {
      const bool source = entry.path().extension() == ".cpp" || entry.path().extension() == ".h";
      if (source) reads.merge(reads_of(text_of(entry.path())));
    }
  }
  return reads;
}

TEST(OptionUse, WhatNothingReadsSaysSo) {
  const auto fields = fields_of_rows();
  const std::set<std::string> reads = reads_outside_config();
  // A key with a rule is compared with the model: that is its use.
  const std::set<std::string> rules = reads_of(text_of(kSource / "config/verdict.cpp"));
  ASSERT_EQ(fields.size(), option_table().size());
  for (const OptionRow& row : option_table()) {
    const bool is_read = reads.contains(fields.at(row.key)) || reads.contains(row.key);
    if (row.no_effect_yet) {
      EXPECT_FALSE(is_read) << row.key << " is read now: take .no_effect_yet from its row";
    } else {
      EXPECT_TRUE(is_read || rules.contains(row.key))
          << row.key << ": nothing reads it; its row needs .no_effect_yet = true";
    }
  }
}

}  // namespace
}  // namespace engramd::config
