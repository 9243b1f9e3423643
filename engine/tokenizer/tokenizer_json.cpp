#include "engine/tokenizer/tokenizer_json.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "engine/tokenizer/utf8.h"

namespace engramd::engine {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxVocabSize = 4'194'304;  // 20 times gpt-oss
constexpr std::size_t kMaxTokenBytes = 4096;       // the longest known spelling has 272
constexpr std::size_t kMaxAddedTokens = 65'536;    // DeepSeek-V3 has 818
constexpr std::size_t kMaxSequence = 32;           // members of a Sequence
constexpr int kMaxDepth = 32;

// GPT-2's pattern, which ByteLevel with use_regex applies (tokenizers,
// pre_tokenizers/byte_level.rs).
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

Error wrong(std::string message) {
  return invalid_argument("tokenizer.json: " + message);
}

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 80) + "...";
  return text;
}

// Many short strings end to end: a tenth of the memory of as many std::string objects.
class StringList {
 public:
  void add(std::string_view text) {
    text_ += text;
    ends_.push_back(static_cast<std::uint32_t>(text_.size()));  // kMaxTokenizerJsonBytes fits
  }
  std::size_t size() const { return ends_.size(); }
  std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(text_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string text_;
  std::vector<std::uint32_t> ends_;
};

// The two large tables are taken out of the event stream, so that they never become a JSON tree.
struct LargeTables {
  StringList tokens;
  std::vector<std::int64_t> token_ids;  // one per token
  StringList merge_parts;               // two per merge
  std::string error;                    // the first; empty: none
};

class TableCollector {
 public:
  explicit TableCollector(LargeTables& tables) : tables_(tables) {}

  // A nlohmann parser callback: false drops the value.
  bool operator()(int depth, json::parse_event_t event, json& value) {
    if (depth > kMaxDepth) fail("expected at most 32 nested levels");
    if (event == json::parse_event_t::key) return on_key(depth, value);
    if (section_ == Section::kVocab) return on_vocab(depth, event, value);
    if (section_ == Section::kMerges) return on_merges(depth, event, value);
    return tables_.error.empty();
  }

 private:
  enum class Section { kOther, kVocab, kMerges };

  void fail(const std::string& what) {
    if (tables_.error.empty()) tables_.error = what;
  }

  bool on_key(int depth, json& key) {
    if (section_ == Section::kVocab && depth == 3) {
      token_.swap(key.get_ref<std::string&>());
      return false;
    }
    if (depth == 1) in_model_ = key == "model";
    if (depth == 2) {
      section_ = !in_model_        ? Section::kOther
                 : key == "vocab"  ? Section::kVocab
                 : key == "merges" ? Section::kMerges
                                   : Section::kOther;
    }
    return true;
  }

  bool on_vocab(int depth, json::parse_event_t event, json& value) {
    using Event = json::parse_event_t;
    if (depth == 2 && event == Event::object_start) return true;
    if (depth == 2 && event == Event::object_end) return leave();
    if (depth == 3 && event == Event::value && value.is_number_integer()) {
      tables_.tokens.add(token_);
      tables_.token_ids.push_back(value.get<std::int64_t>());
      return true;  // on_key dropped the key already
    }
    fail("model.vocab: expected an object of token to integer id");
    return leave();
  }

  bool on_merges(int depth, json::parse_event_t event, json& value) {
    using Event = json::parse_event_t;
    if (depth == 2 && event == Event::array_start) return true;
    if (depth == 2 && event == Event::array_end) return leave();
    if (depth == 3 && event == Event::value && value.is_string()) return on_merge_string(value);
    if (depth == 3 && event == Event::array_start) return true;
    if (depth == 4 && event == Event::value && value.is_string() && n_parts_ < 2) {
      tables_.merge_parts.add(value.get_ref<const std::string&>());
      ++n_parts_;
      return false;
    }
    if (depth == 3 && event == Event::array_end && n_parts_ == 2) {
      n_parts_ = 0;
      return false;
    }
    fail("model.merges: expected an array of \"a b\" or [\"a\", \"b\"], entry " +
         std::to_string((tables_.merge_parts.size() - n_parts_) / 2) + " is neither");
    return leave();
  }

  bool on_merge_string(const json& value) {
    const auto& text = value.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
      fail("model.merges: expected two parts with one space between, entry " +
           std::to_string(tables_.merge_parts.size() / 2) + " is " + shown(value));
      return false;
    }
    tables_.merge_parts.add(std::string_view(text).substr(0, space));
    tables_.merge_parts.add(std::string_view(text).substr(space + 1));
    return false;
  }

  bool leave() {
    section_ = Section::kOther;
    return true;
  }

  LargeTables& tables_;
  Section section_ = Section::kOther;
  bool in_model_ = false;
  std::string token_;
  std::size_t n_parts_ = 0;  // of the current merge, if it is an array
};

const json& member(const json& object, const char* name) {
  static const json null;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return found == object.end() ? null : *found;
}

std::string type_of(const json& component) {
  const json& type = member(component, "type");
  return type.is_string() ? type.get<std::string>() : std::string();
}

// Absent and null count as `fallback`.
Result<bool> boolean(const json& object, const char* name, bool fallback) {
  const json& value = member(object, name);
  if (value.is_null()) return fallback;
  if (value.is_boolean()) return value.get<bool>();
  return wrong(std::string(name) + ": expected true or false, got " + shown(value));
}

Result<void> require_absent_or(const json& object, const char* name, const json& accepted) {
  const json& value = member(object, name);
  if (value.is_null() || value == accepted) return {};
  return wrong(std::string(name) + ": expected null or " + accepted.dump() + ", got " +
               shown(value) + ", which is not supported");
}

// The members of `component` if it is a Sequence, else itself; null has none.
Result<std::vector<const json*>> members(const json& component, const char* list_name) {
  std::vector<const json*> result;
  if (component.is_null()) return result;
  if (type_of(component) != "Sequence") {
    result.push_back(&component);
    return result;
  }
  const json& list = member(component, list_name);
  if (!list.is_array() || list.size() > kMaxSequence) {
    return wrong(std::string(list_name) + ": expected an array of at most 32, got " + shown(list));
  }
  for (const json& entry : list) {
    if (type_of(entry) == "Sequence") return wrong("a Sequence inside a Sequence is not supported");
    result.push_back(&entry);
  }
  return result;
}

Result<void> put_token(std::vector<std::string>& vocabulary, std::string_view spelling,
                       std::int64_t id) {
  if (id < 0 || id >= kMaxVocabSize) {
    return wrong("token ids: expected 0 to " + std::to_string(kMaxVocabSize - 1) + ", got " +
                 std::to_string(id));
  }
  if (spelling.empty() || spelling.size() > kMaxTokenBytes) {
    return wrong("tokens: expected 1 to 4096 bytes, id " + std::to_string(id) + " has " +
                 std::to_string(spelling.size()));
  }
  const auto index = static_cast<std::size_t>(id);
  if (index >= vocabulary.size()) vocabulary.resize(index + 1);
  if (!vocabulary[index].empty() && vocabulary[index] != spelling) {
    return wrong("token id " + std::to_string(id) + " is given to both '" + vocabulary[index] +
                 "' and '" + std::string(spelling) + "'; expected one token per id");
  }
  vocabulary[index] = spelling;
  return {};
}

Result<void> read_vocabulary(const LargeTables& tables, TokenizerSpec& spec) {
  if (tables.tokens.size() == 0) return wrong("model.vocab: expected an object with tokens");
  for (std::size_t i = 0; i < tables.tokens.size(); ++i) {
    const auto put = put_token(spec.vocabulary, tables.tokens[i], tables.token_ids[i]);
    if (!put) return put.error();
  }
  return {};
}

Result<void> read_merges(const StringList& parts, TokenizerSpec& spec) {
  TokenIndex index;
  index.build(spec.vocabulary);
  spec.merges.reserve(parts.size() / 2);
  std::string joined;
  for (std::size_t i = 0; i < parts.size(); i += 2) {
    const std::string_view left = parts[i];
    const std::string_view right = parts[i + 1];
    joined.assign(left).append(right);
    const Merge merge{index.find(spec.vocabulary, left), index.find(spec.vocabulary, right),
                      index.find(spec.vocabulary, joined)};
    if (merge.left < 0 || merge.right < 0 || merge.result < 0) {
      const std::string_view missing = merge.left < 0 ? left : merge.right < 0 ? right : joined;
      return wrong("model.merges: entry " + std::to_string(i / 2) + " needs the token '" +
                   std::string(missing) + "', which is not in model.vocab");
    }
    spec.merges.push_back(merge);
  }
  return {};
}

Result<void> read_model(const json& model, const LargeTables& tables, TokenizerSpec& spec) {
  if (type_of(model) != "BPE") {
    return wrong("model.type: expected \"BPE\", got " + shown(member(model, "type")));
  }
  for (const auto& [name, accepted] :
       {std::pair{"dropout", json(0.0)}, std::pair{"unk_token", json("")},
        std::pair{"continuing_subword_prefix", json("")}, std::pair{"end_of_word_suffix", json("")},
        std::pair{"byte_fallback", json(false)}}) {
    if (const auto absent = require_absent_or(model, name, accepted); !absent) {
      return absent.error();
    }
  }
  const auto ignore_merges = boolean(model, "ignore_merges", false);
  if (!ignore_merges) return ignore_merges.error();
  spec.ignore_merges = *ignore_merges;
  if (const auto read = read_vocabulary(tables, spec); !read) return read.error();
  return read_merges(tables.merge_parts, spec);
}

Result<void> read_added_tokens(const json& list, TokenizerSpec& spec) {
  if (list.is_null()) return {};
  if (!list.is_array() || list.size() > kMaxAddedTokens) {
    return wrong("added_tokens: expected an array of at most 65536");
  }
  TokenIndex index;
  index.build(spec.vocabulary);
  for (const json& entry : list) {
    const json& id = member(entry, "id");
    const json& content = member(entry, "content");
    if (!id.is_number_integer() || !content.is_string()) {
      return wrong("added_tokens: expected an integer id and a string content, got " +
                   shown(entry));
    }
    for (const char* flag : {"single_word", "lstrip", "rstrip"}) {
      const auto absent = require_absent_or(entry, flag, json(false));
      if (!absent) return absent.error();
    }
    const auto special = boolean(entry, "special", false);
    if (!special) return special.error();
    const auto normalized = boolean(entry, "normalized", !*special);
    if (!normalized) return normalized.error();
    const auto& text = content.get_ref<const std::string&>();
    const TokenId known = index.find(spec.vocabulary, text);
    if (known >= 0 && known != id.get<std::int64_t>()) {
      return wrong("added_tokens: '" + text + "' has id " + shown(id) + ", but model.vocab gives " +
                   std::to_string(known));
    }
    const auto put = put_token(spec.vocabulary, text, id.get<std::int64_t>());
    if (!put) return put.error();
    spec.added_tokens.push_back({id.get<TokenId>(), text, *special, *normalized});
  }
  return {};
}

Result<void> read_normalizer(const json& normalizer, TokenizerSpec& spec) {
  const auto list = members(normalizer, "normalizers");
  if (!list) return list.error();
  for (const json* entry : *list) {
    if (type_of(*entry) != "NFC") {
      return wrong("normalizer: expected null, NFC or a Sequence of these, got " + shown(*entry));
    }
    spec.normalize_nfc = true;
  }
  return {};
}

// A pattern that matches `text` itself.
std::string quoted(const std::string& text) {
  std::string pattern;
  for (const char c : text) {
    if (std::string_view("\\^$.[]|()?*+{}").find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

Result<SplitRule> read_split(const json& split) {
  SplitRule rule;
  const json& regex = member(member(split, "pattern"), "Regex");
  const json& literal = member(member(split, "pattern"), "String");
  if (regex.is_string()) {
    rule.pattern = regex.get<std::string>();
  } else if (literal.is_string()) {
    rule.pattern = quoted(literal.get<std::string>());
  } else {
    return wrong("Split: expected pattern.Regex or pattern.String, got " + shown(split));
  }
  const std::pair<const char*, SplitBehavior> behaviors[] = {
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous}};
  const json& behavior = member(split, "behavior");
  const auto* found = std::find_if(std::begin(behaviors), std::end(behaviors),
                                   [&](const auto& known) { return behavior == known.first; });
  if (found == std::end(behaviors)) {
    return wrong("Split: unknown behavior " + shown(behavior) +
                 ", expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
  }
  rule.behavior = found->second;
  const auto invert = boolean(split, "invert", false);
  if (!invert) return invert.error();
  rule.invert = *invert;
  return rule;
}

Result<void> read_byte_level(const json& byte_level, TokenizerSpec& spec) {
  const auto add_prefix_space = boolean(byte_level, "add_prefix_space", true);
  if (!add_prefix_space) return add_prefix_space.error();
  if (*add_prefix_space) return wrong("ByteLevel: add_prefix_space true is not supported");
  const auto use_regex = boolean(byte_level, "use_regex", true);
  if (!use_regex) return use_regex.error();
  if (*use_regex) spec.split_rules.push_back({std::string(kGpt2Pattern)});
  return {};
}

Result<void> read_pre_tokenizer(const json& pre_tokenizer, TokenizerSpec& spec) {
  const auto list = members(pre_tokenizer, "pretokenizers");
  if (!list) return list.error();
  if (list->empty() || type_of(*list->back()) != "ByteLevel") {
    return wrong("pre_tokenizer: expected ByteLevel, or a Sequence that ends in it, got " +
                 shown(pre_tokenizer));
  }
  for (const json* entry : *list) {
    const std::string type = type_of(*entry);
    if (type == "Split") {
      auto rule = read_split(*entry);
      if (!rule) return rule.error();
      spec.split_rules.push_back(std::move(*rule));
    } else if (type == "Digits") {
      const auto individual = boolean(*entry, "individual_digits", false);
      if (!individual) return individual.error();
      spec.split_rules.push_back({*individual ? "\\p{Digits}" : "\\p{Digits}+"});
    } else if (type == "ByteLevel" && entry == list->back()) {
      if (const auto read = read_byte_level(*entry, spec); !read) return read.error();
    } else {
      return wrong("pre_tokenizer: expected Split, Digits or one ByteLevel at the end, got " +
                   shown(*entry));
    }
  }
  return {};
}

// "single": special tokens in front of sequence A become the prefix.
Result<void> read_template(const json& processor, TokenizerSpec& spec) {
  const json& single = member(processor, "single");
  if (!single.is_array() || single.size() > kMaxSequence) {
    return wrong("TemplateProcessing: expected an array \"single\", got " + shown(single));
  }
  bool has_sequence = false;
  for (const json& item : single) {
    if (item.contains("Sequence") && !has_sequence) {
      has_sequence = true;
      continue;
    }
    const json& name = member(member(item, "SpecialToken"), "id");
    if (!name.is_string() || has_sequence) {
      return wrong("TemplateProcessing: expected special tokens in front of one Sequence, got " +
                   shown(single));
    }
    const json& special =
        member(member(processor, "special_tokens"), name.get_ref<const std::string&>().c_str());
    const json& ids = member(special, "ids");
    if (!ids.is_array() || ids.size() > kMaxSequence) {
      return wrong("TemplateProcessing: expected ids for the special token " + shown(name));
    }
    for (const json& id : ids) {
      const auto size = static_cast<std::int64_t>(spec.vocabulary.size());
      if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() >= size) {
        return wrong("TemplateProcessing: expected ids below " + std::to_string(size) + ", got " +
                     shown(id));
      }
      spec.prefix.push_back(id.get<TokenId>());
    }
  }
  return {};
}

Result<void> read_post_processor(const json& post_processor, TokenizerSpec& spec) {
  const auto list = members(post_processor, "processors");
  if (!list) return list.error();
  for (const json* entry : *list) {
    if (type_of(*entry) == "ByteLevel") continue;  // trims offsets, which ours never are
    if (type_of(*entry) != "TemplateProcessing") {
      return wrong("post_processor: expected ByteLevel or TemplateProcessing, got " +
                   shown(*entry));
    }
    if (const auto read = read_template(*entry, spec); !read) return read.error();
  }
  return {};
}

Result<void> read_root(const json& root, const LargeTables& tables, TokenizerSpec& spec) {
  if (!root.is_object()) return wrong("expected an object");
  for (const char* name : {"truncation", "padding"}) {
    if (!member(root, name).is_null()) {
      return wrong(std::string(name) + ": expected null, got " + shown(member(root, name)) +
                   "; set it to null");
    }
  }
  if (type_of(member(root, "decoder")) != "ByteLevel") {
    return wrong("decoder: expected ByteLevel, got " + shown(member(root, "decoder")));
  }
  if (const auto read = read_model(member(root, "model"), tables, spec); !read) return read.error();
  auto read = read_added_tokens(member(root, "added_tokens"), spec);
  if (read) read = read_normalizer(member(root, "normalizer"), spec);
  if (read) read = read_pre_tokenizer(member(root, "pre_tokenizer"), spec);
  if (read) read = read_post_processor(member(root, "post_processor"), spec);
  return read;
}

}  // namespace

Result<TokenizerSpec> parse_tokenizer_json(std::string_view text) {
  if (text.size() > kMaxTokenizerJsonBytes) {
    return wrong("expected at most " + std::to_string(kMaxTokenizerJsonBytes) + " bytes, got " +
                 std::to_string(text.size()));
  }
  try {
    LargeTables tables;
    const json root = json::parse(text.begin(), text.end(), TableCollector(tables));
    if (!tables.error.empty()) return wrong(tables.error);
    TokenizerSpec spec;
    if (const auto read = read_root(root, tables, spec); !read) return read.error();
    return spec;
  } catch (const json::exception& error) {
    return wrong(std::string("not valid JSON: ") + error.what());
  }
}

}  // namespace engramd::engine
