// Holds every #include to the picture of the architecture:
//
//   config <- kernels <- engine <- server
//   config <- mcp     <----------- server
//
// and every library to the layer that owns it. A test sees what the layer it tests may see.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tidy/source_tree.h"

namespace engramd::tidy {
namespace {

// Layer -> what its quoted includes may start with.
const std::map<std::string, std::vector<std::string>> kMayInclude = {
    {"config", {"config/"}},
    {"kernels", {"config/assert.h", "kernels/"}},
    {"engine", {"config/", "kernels/", "engine/"}},
    {"mcp", {"config/", "mcp/"}},
    {"server", {"config/", "kernels/", "engine/", "mcp/", "server/"}},
};

// Angled include -> the places that may name it. The first entry that fits an include decides.
struct LibraryRule {
  std::string include;              // the include starts with this
  std::vector<std::string> places;  // the path starts with one of these
};
const std::vector<LibraryRule> kLibraryRules = {
    {"nlohmann/", {"config/", "engine/", "mcp/", "server/"}},  // .cpp only in the first two
    {"toml++/", {"config/load_toml.cpp"}},
    {"toml.hpp", {"config/load_toml.cpp"}},
    {"spdlog/", {"server/"}},
    {"boost/asio", {"server/"}},
    {"boost/beast", {"server/"}},
    {"openssl/", {"server/"}},
    {"pcre2.h", {"engine/tokenizer/"}},
    {"utf8proc.h", {"engine/"}},
    {"gtest/", {}},
    {"gmock/", {}},
};

// What of C, the operating system and the compiler kernels may use besides the standard library.
const std::vector<std::string> kKernelSystemHeaders = {
    "string.h", "immintrin.h", "cpuid.h", "sched.h", "pthread.h", "cuda", "cublas"};

// The protocol is a function from request to response: no files, no threads.
const std::vector<std::string> kNotInMcp = {"thread",     "future", "fstream", "iostream",
                                            "filesystem", "sys/",   "unistd.h"};

bool starts_with_any(const std::string& text, const std::vector<std::string>& prefixes) {
  for (const std::string& prefix : prefixes) {
    if (text.starts_with(prefix)) return true;
  }
  return false;
}

struct Include {
  std::string name;
  bool quoted = false;
};

std::optional<Include> parse_include(const std::string& line) {
  const std::string directive = "#include ";
  if (!line.starts_with(directive) || line.size() < directive.size() + 2) return std::nullopt;
  const bool quoted = line[directive.size()] == '"';
  const std::size_t begin = directive.size() + 1;
  return Include{line.substr(begin, line.find(quoted ? '"' : '>', begin) - begin), quoted};
}

// "" for what is above all layers: benchmarks, fuzz targets, end-to-end tests.
std::string layer_of(const SourceFile& file) {
  const std::string path = file.is_in("tests/") ? file.path.substr(6) : file.path;
  const std::string folder = path.substr(0, path.find('/'));
  return kMayInclude.contains(folder) ? folder : "";
}

std::string quoted_include_problem(const SourceFile& file, const std::string& include) {
  if (!exists_in_tree(include)) return "is not a path from the root of the tree";
  if (include.starts_with("tests/")) {
    return file.is_in("tests/") ? "" : "is a test's file";
  }
  const std::string layer = layer_of(file);
  if (layer.empty() || starts_with_any(include, kMayInclude.at(layer))) return "";
  return "is not in the picture: " + layer + " may include " + listing(kMayInclude.at(layer));
}

std::string angled_include_problem(const SourceFile& file, const std::string& include) {
  if (file.is_in("tests/")) return "";
  if (file.is_in("kernels/") && include.find_first_of("./") != std::string::npos &&
      !starts_with_any(include, kKernelSystemHeaders)) {
    return "is more than kernels may know: the standard library and the processor";
  }
  if (file.is_in("mcp/") && starts_with_any(include, kNotInMcp)) {
    return "does input, output or threads, which mcp leaves to server";
  }
  if (include.starts_with("nlohmann/") && file.is_header() &&
      (file.is_in("config/") || file.is_in("engine/"))) {
    return "belongs into the parser's .cpp, not into a header";
  }
  for (const LibraryRule& rule : kLibraryRules) {
    if (!include.starts_with(rule.include)) continue;
    if (starts_with_any(file.path, rule.places)) return "";
    return "belongs to" + (rule.places.empty() ? " tests" : listing(rule.places));
  }
  return "";
}

std::vector<std::string> include_violations(const SourceFile& file) {
  std::vector<std::string> violations;
  for (const std::string& line : file.lines) {
    const std::optional<Include> include = parse_include(line);
    if (!include) continue;
    const std::string problem = include->quoted ? quoted_include_problem(file, include->name)
                                                : angled_include_problem(file, include->name);
    if (!problem.empty()) violations.push_back(file.path + ": " + include->name + " " + problem);
  }
  return violations;
}

TEST(Layering, EveryIncludeIsInThePicture) {
  std::size_t n_cpp = 0;
  for (const SourceFile& file : read_source_tree()) {
    if (!file.is_cpp()) continue;
    ++n_cpp;
    const std::vector<std::string> violations = include_violations(file);
    EXPECT_TRUE(violations.empty()) << listing(violations);
  }
  EXPECT_GE(n_cpp, 20U) << "the tree was not found";
}

TEST(Layering, AnEdgeOutsideThePictureIsFound) {
  const auto count = [](const std::string& path, const std::string& line) {
    return include_violations({path, {line}}).size();
  };
  EXPECT_EQ(count("engine/model/model.cpp", "#include \"config/result.h\""), 0U);
  EXPECT_EQ(count("server/main.cpp", "#include \"mcp/dispatcher.h\""), 0U);
  EXPECT_EQ(count("mcp/dispatcher.cpp", "#include \"engine/tokenizer/tokenizer.h\""), 1U);
  EXPECT_EQ(count("tests/mcp/dispatcher_test.cpp", "#include \"engine/tokenizer/tokenizer.h\""),
            1U);
  EXPECT_EQ(count("kernels/backend.h", "#include \"config/result.h\""), 1U);
  EXPECT_EQ(count("config/result.h", "#include \"kernels/tensor_view.h\""), 1U);
  EXPECT_EQ(count("engine/model/model.h", "#include \"model.h\""), 1U);
}

TEST(Layering, ALibraryOutsideItsLayerIsFound) {
  const auto count = [](const std::string& path, const std::string& line) {
    return include_violations({path, {line}}).size();
  };
  EXPECT_EQ(count("engine/checkpoint/safetensors.cpp", "#include <nlohmann/json.hpp>"), 0U);
  EXPECT_EQ(count("engine/checkpoint/safetensors.h", "#include <nlohmann/json.hpp>"), 1U);
  EXPECT_EQ(count("kernels/cpu/features.cpp", "#include <cpuid.h>"), 0U);
  EXPECT_EQ(count("kernels/cpu/features.cpp", "#include <fmt/format.h>"), 1U);
  EXPECT_EQ(count("engine/model/model.cpp", "#include <spdlog/spdlog.h>"), 1U);
  EXPECT_EQ(count("mcp/dispatcher.cpp", "#include <thread>"), 1U);
  EXPECT_EQ(count("mcp/dispatcher.cpp", "#include <boost/asio/post.hpp>"), 1U);
  EXPECT_EQ(count("config/load_json.cpp", "#include <toml++/toml.h>"), 1U);
}

}  // namespace
}  // namespace engramd::tidy
