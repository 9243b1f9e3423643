// The project's own text files, for the tests that hold them to the house rules. Reads the checkout
// this test was built from. Not here: fixtures (tests/data), seeds, the model's weights, what npm
// and CMake put into the tree.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace engramd::tidy {

struct SourceFile {
  std::string path;  // from the root of the checkout: "config/result.h"
  std::vector<std::string> lines;

  bool is_cpp() const;     // C++ or CUDA, header or not
  bool is_header() const;  // .h or .cuh
  bool is_in(std::string_view folder) const { return path.starts_with(folder); }  // "server/"
};

// All files, sorted by path.
std::vector<SourceFile> read_source_tree();

// True for a path that exists in the checkout.
bool exists_in_tree(const std::string& path);

// The line without a // comment and with its string literals emptied: what the compiler acts on.
std::string code_of(std::string_view line);

// Finds `token` where it is not part of a longer identifier.
bool has_token(std::string_view text, std::string_view token);

// One line per violation; gtest prints it when a rule's list is not empty.
std::string listing(const std::vector<std::string>& violations);

}  // namespace engramd::tidy
