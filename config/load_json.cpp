#include "config/load_json.h"

#include <iterator>
#include <limits>
#include <set>

#include <nlohmann/json.hpp>

namespace engramd::config {
namespace {

using nlohmann::json;

constexpr std::size_t kDepthMax = 16;  // the users' files need 3

// Counts lines while the parser reads: nlohmann's SAX events carry no position, but the key event
// comes right after the key's closing quote was read.
class LineCountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  LineCountingIterator(const char* at, std::int64_t* line) : at_(at), line_(line) {}
  reference operator*() const { return *at_; }
  LineCountingIterator& operator++() {
    if (*at_ == '\n') ++*line_;
    ++at_;
    return *this;
  }
  LineCountingIterator operator++(int) {
    const LineCountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const LineCountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const LineCountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  std::int64_t* line_;
};

// Flattens the document to dotted keys with their lines. The function names are nlohmann's.
class Flattener {
 public:
  explicit Flattener(const std::int64_t& line) : line_(line) {}

  std::vector<FoundKey> found;
  std::string problem;  // empty: well-formed so far
  std::int64_t problem_line = 0;

  bool null() { return scalar({{}, "null"}); }
  bool boolean(bool value) { return scalar({value, {}}); }
  bool number_integer(std::int64_t value) { return scalar({value, {}}); }
  bool number_unsigned(std::uint64_t value) {
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      return scalar({{}, "an integer of more than 63 bits"});
    }
    return scalar({static_cast<std::int64_t>(value), {}});
  }
  bool number_float(double value, const std::string& /*text*/) { return scalar({value, {}}); }
  bool string(std::string& value) { return scalar({value, {}}); }
  bool binary(json::binary_t& /*value*/) { return scalar({{}, "binary data"}); }

  bool start_object(std::size_t /*size*/) {
    if (list_depth_ > 0) {
      if (list_depth_ == 1) items_.push_back({{}, "a table"});
      return enter_list();
    }
    if (path_.size() >= kDepthMax) return fail("nested more than 16 levels deep");
    path_.push_back({current_key(), {}, true, {}});
    return true;
  }
  bool key(std::string& name) {
    if (list_depth_ > 0) return true;
    Level& level = path_.back();
    level.is_empty = false;
    level.key = level.prefix.empty() ? name : level.prefix + "." + name;
    key_line_ = line_;
    if (!level.seen.insert(name).second) return fail("the key " + to_toml(name) + " occurs twice");
    return true;
  }
  bool end_object() {
    if (list_depth_ > 0) return leave_list();
    const Level level = path_.back();
    path_.pop_back();
    if (level.is_empty && !path_.empty()) {
      found.push_back({level.prefix, key_line_, {{}, std::string(kEmptyTable)}});
    }
    return true;
  }
  bool start_array(std::size_t /*size*/) {
    if (path_.empty()) return fail("expected an object, got a list");
    if (list_depth_ == 1) items_.push_back({{}, "a list"});
    return enter_list();
  }
  bool end_array() { return leave_list(); }
  bool parse_error(std::size_t /*position*/, const std::string& /*last_token*/,
                   const json::exception& /*error*/) {
    // The library's message repeats what it read, which may be a key; the line is enough.
    return fail("not valid JSON here or just before (a missing comma, quote or bracket?)");
  }

 private:
  struct Level {
    std::string prefix;  // dotted key of this object
    std::string key;     // dotted key of the member being read
    bool is_empty = true;
    std::set<std::string> seen;
  };

  std::string current_key() const { return path_.empty() ? std::string() : path_.back().key; }
  bool scalar(FoundValue value) {
    if (list_depth_ > 1) return true;  // inside something that no option takes
    if (list_depth_ == 1) {
      if (items_.size() <= kListItemsMax) items_.push_back(std::move(value));
      return true;
    }
    if (path_.empty()) return fail("expected an object, got a single value");
    found.push_back({current_key(), key_line_, std::move(value)});
    return true;
  }
  bool enter_list() {
    ++list_depth_;
    return true;
  }
  bool leave_list() {
    if (--list_depth_ > 0) return true;
    found.push_back({current_key(), key_line_, found_list(items_)});
    items_.clear();
    return true;
  }
  bool fail(std::string message) {
    problem = std::move(message);
    problem_line = line_;
    return false;
  }

  const std::int64_t& line_;
  std::int64_t key_line_ = 1;
  std::vector<Level> path_;
  std::int64_t list_depth_ = 0;  // lists, and tables inside lists, are only counted
  std::vector<FoundValue> items_;
};

}  // namespace

LoadedSettings load_json(std::string_view text, const std::string& path) {
  LoadedSettings loaded;
  std::int64_t line = 1;
  Flattener flattener(line);
  const LineCountingIterator begin(text.data(), &line);
  const LineCountingIterator end(text.data() + text.size(), &line);
  if (!json::sax_parse(begin, end, &flattener)) {
    loaded.problems.push_back(path + ":" + std::to_string(flattener.problem_line) + ": " +
                              flattener.problem);
    return loaded;
  }
  const SourceFile file{path, KeySpace::kJson, Rank::kSideFile};
  for (const FoundKey& found : flattener.found) add_found(file, found, loaded);
  return loaded;
}

}  // namespace engramd::config
