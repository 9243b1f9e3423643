#include "engine/tokenizer/regex_syntax.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <variant>

#include "engine/tokenizer/code_point_set.h"
#include "engine/tokenizer/utf8.h"

namespace engramd::engine {
namespace {

constexpr std::size_t kMaxPatternBytes = 16384;  // the longest known pattern has 300
constexpr std::size_t kMaxSets = 64;             // bits of a signature; o200k needs 17
constexpr std::size_t kMaxSymbols = 255;
constexpr std::size_t kMaxNesting = 64;

using SetIndex = std::size_t;
using Part = std::variant<std::string, SetIndex>;  // PCRE2 syntax as it is, or one code point

bool is_ascii_letter(char32_t c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_ascii_alphanumeric(char32_t c) {
  return is_ascii_letter(c) || (c >= '0' && c <= '9');
}

// Case folding as the library does it: by Unicode, where two non-ASCII code points fold to ASCII.
CodePointSet fold_ascii(char32_t c) {
  CodePointSet set;
  set.add(c, c);
  if (is_ascii_letter(c)) {
    set.add(c ^ 0x20, c ^ 0x20);
    if ((c | 0x20) == 's') set.add(0x17F, 0x17F);    // LATIN SMALL LETTER LONG S
    if ((c | 0x20) == 'k') set.add(0x212A, 0x212A);  // KELVIN SIGN
  }
  return set;
}

class Parser {
 public:
  explicit Parser(std::string_view pattern) : pattern_(pattern) {}

  // Fills parts() and sets(), or says what is not supported.
  Result<void> parse() {
    while (!at_end() && error_.empty()) parse_one();
    if (error_.empty() && ignore_case_.size() != 1) fail("a group that is not closed");
    if (!error_.empty()) return invalid_argument(error_);
    return {};
  }
  const std::vector<Part>& parts() const { return parts_; }
  const std::vector<CodePointSet>& sets() const { return sets_; }

 private:
  bool at_end() const { return position_ >= pattern_.size(); }
  bool looking_at(std::string_view text) const {
    return pattern_.substr(position_).starts_with(text);
  }
  bool take(std::string_view text) {
    if (!looking_at(text)) return false;
    position_ += text.size();
    return true;
  }
  char32_t take_code_point() { return next_code_point(pattern_, position_); }

  void fail(std::string_view what) {
    if (error_.empty()) {
      error_ = "regular expression: " + std::string(what) + " is not supported, at byte " +
               std::to_string(position_) + " of '" + std::string(pattern_) + "'";
    }
  }

  void put(std::string_view syntax) {
    if (parts_.empty() || !std::holds_alternative<std::string>(parts_.back())) {
      parts_.emplace_back(std::string());
    }
    std::get<std::string>(parts_.back()) += syntax;
  }

  void put(const CodePointSet& set) {
    const auto found = std::find(sets_.begin(), sets_.end(), set);
    parts_.emplace_back(static_cast<SetIndex>(found - sets_.begin()));
    if (found == sets_.end()) sets_.push_back(set);
    if (sets_.size() > kMaxSets) fail("a pattern with more than 64 different sets of characters");
  }

  void parse_one() {
    if (take("(")) return parse_group();
    if (take(")")) {
      if (ignore_case_.size() == 1) return fail("a ')' without '('");
      ignore_case_.pop_back();
      return put(")");
    }
    if (take("|")) return put("|");
    for (const std::string_view quantifier : {"*", "+", "?"}) {
      if (take(quantifier)) {
        put(quantifier);
        if (take("?")) return put("?");  // lazy
        if (take("+")) return put("+");  // possessive
        return;
      }
    }
    if (looking_at("{")) return parse_interval();
    if (take("[")) return parse_class();
    if (take(".")) {
      CodePointSet newline;
      newline.add('\n', '\n');
      return put(newline.complement());
    }
    if (looking_at("^") || looking_at("$")) return fail("an anchor");
    if (looking_at("\\")) return parse_escape_as_atom();
    put_literal(take_code_point());
  }

  void put_literal(char32_t c) {
    CodePointSet set;
    set.add(c, c);
    if (ignore_case_.back()) {
      if (c >= 0x80) return fail("a non-ASCII character inside (?i:..)");
      set = fold_ascii(c);
    }
    put(set);
  }

  void parse_group() {
    bool ignore_case = ignore_case_.back();
    if (take("?i:")) {
      ignore_case = true;
      put("(?:");
    } else if (looking_at("?")) {
      bool known = false;
      for (const std::string_view kind : {"?:", "?=", "?!", "?<=", "?<!", "?>"}) {
        if (!known && take(kind)) {
          put("(");
          put(kind);
          known = true;
        }
      }
      if (!known) return fail("this kind of group");
    } else {
      put("(?:");  // nobody reads captures
    }
    ignore_case_.push_back(ignore_case);
    if (ignore_case_.size() > kMaxNesting) fail("nesting deeper than 64 groups");
  }

  void parse_interval() {
    const std::size_t close = pattern_.find('}', position_);
    const std::string_view body =
        pattern_.substr(position_, close == std::string_view::npos ? close : close + 1 - position_);
    const bool is_interval = body.size() >= 3 && body.back() == '}' && body[1] != ',' &&
                             body.find_first_not_of("0123456789,", 1) == body.size() - 1 &&
                             std::count(body.begin(), body.end(), ',') <= 1;
    if (!is_interval) return fail("a '{' that opens no {n}, {n,} or {n,m}");
    position_ += body.size();
    put(body);
    // Oniguruma reads {n,m}+ as a repeated repeat, PCRE2 as possessive.
    if (looking_at("+")) return fail("'+' behind {n,m}");
    if (take("?")) put("?");
  }

  void parse_escape_as_atom() {
    const bool literal =
        pattern_.size() > position_ + 1 &&
        !is_ascii_alphanumeric(static_cast<unsigned char>(pattern_[position_ + 1]));
    if (literal) {
      ++position_;
      return put_literal(take_code_point());
    }
    const auto set = parse_escape();
    if (set) put(*set);
  }

  std::optional<CodePointSet> parse_escape() {
    CodePointSet set;
    const auto single = [&](char32_t c) {
      set.add(c, c);
      return set;
    };
    ++position_;  // the backslash
    if (at_end()) {
      fail("a backslash at the end");
      return std::nullopt;
    }
    if (take("s")) return CodePointSet::named("s");
    if (take("S")) return CodePointSet::named("s").complement();
    if (take("r")) return single('\r');
    if (take("n")) return single('\n');
    if (take("t")) return single('\t');
    if (take("x")) return parse_hexadecimal();
    const bool negated = looking_at("P");
    if (take("p{") || take("P{")) {
      const std::size_t close = pattern_.find('}', position_);
      const std::string_view name =
          pattern_.substr(position_, close == std::string_view::npos ? close : close - position_);
      set = CodePointSet::named(name);
      if (close == std::string_view::npos || set.empty()) {
        fail("the class \\p{" + std::string(name.substr(0, 40)) +
             "} (known: L, Lu, Ll, Lt, Lm, Lo, M, N, P, S)");
        return std::nullopt;
      }
      position_ = close + 1;
      return negated ? set.complement() : set;
    }
    const char32_t c = take_code_point();
    if (is_ascii_alphanumeric(c)) {
      fail("the escape \\" + std::string(1, static_cast<char>(c)));
      return std::nullopt;
    }
    return single(c);
  }

  std::optional<CodePointSet> parse_hexadecimal() {
    const bool braces = take("{");
    char32_t value = 0;
    std::size_t n_digits = 0;
    while (n_digits < (braces ? 6 : 2) && !at_end()) {
      const std::size_t digit =
          std::string_view("0123456789abcdef")
              .find(
                  static_cast<char>(pattern_[position_] | (pattern_[position_] >= 'A' ? 0x20 : 0)));
      if (digit == std::string_view::npos) break;
      value = value * 16 + static_cast<char32_t>(digit);
      ++n_digits;
      ++position_;
    }
    if (n_digits == 0 || (!braces && n_digits != 2) || (braces && !take("}")) ||
        value > CodePointSet::kLastCodePoint) {
      fail("a \\x that is neither \\xHH nor \\x{H..} up to 10FFFF");
      return std::nullopt;
    }
    CodePointSet set;
    set.add(value, value);
    return set;
  }

  // One member of [...]: a set, and its code point if it is a single one (a range may follow).
  std::optional<CodePointSet> parse_class_member(std::optional<char32_t>& single) {
    if (looking_at("[") || looking_at("&&")) {
      fail("a class inside a class");
      return std::nullopt;
    }
    CodePointSet set;
    if (looking_at("\\")) {
      const auto escaped = parse_escape();
      if (!escaped) return std::nullopt;
      set = *escaped;
    } else {
      const char32_t c = take_code_point();
      set.add(c, c);
    }
    const auto& ranges = set.ranges();
    single.reset();
    if (ranges.size() == 1 && ranges[0].first == ranges[0].last) single = ranges[0].first;
    return set;
  }

  void parse_class() {
    if (ignore_case_.back()) return fail("a class inside (?i:..)");
    const bool negated = take("^");
    CodePointSet set;
    if (looking_at("]")) return fail("an empty class");
    while (!at_end() && !looking_at("]")) {
      std::optional<char32_t> first;
      const auto member = parse_class_member(first);
      if (!member) return;
      const bool is_range = looking_at("-") && !looking_at("-]");
      if (!is_range) {
        set.add(*member);
        continue;
      }
      take("-");
      std::optional<char32_t> last;
      if (at_end() || !parse_class_member(last)) return fail("a class that is not closed");
      if (!first || !last || *first > *last) return fail("this range in a class");
      set.add(*first, *last);
    }
    if (!take("]")) return fail("a class that is not closed");
    put(negated ? set.complement() : set);
  }

  std::string_view pattern_;
  std::size_t position_ = 0;
  std::vector<bool> ignore_case_ = {false};  // one per open group
  std::vector<Part> parts_;
  std::vector<CodePointSet> sets_;
  std::string error_;
};

// Fills the table, interval by interval in order.
class SymbolTableWriter {
 public:
  explicit SymbolTableWriter(SymbolTable& table) : table_(table) {}

  void append(char32_t begin, char32_t end, std::uint8_t symbol) {
    while (begin < end) {
      const char32_t block_end =
          begin / SymbolTable::kBlock * SymbolTable::kBlock + SymbolTable::kBlock;
      const char32_t stop = std::min(end, block_end);
      const bool starts_block = begin % SymbolTable::kBlock == 0;
      if (starts_block) open_block(stop == block_end, symbol);
      if (!(starts_block && stop == block_end)) {
        table_.symbols.resize(table_.symbols.size() + (stop - begin), symbol);
      }
      begin = stop;
    }
  }

 private:
  void open_block(bool is_uniform, std::uint8_t symbol) {
    const auto next = static_cast<std::uint16_t>(table_.symbols.size() / SymbolTable::kBlock);
    if (!is_uniform) return table_.block_of.push_back(next);
    const auto [entry, is_new] = uniform_blocks_.try_emplace(symbol, next);
    if (is_new) table_.symbols.resize(table_.symbols.size() + SymbolTable::kBlock, symbol);
    table_.block_of.push_back(entry->second);
  }

  SymbolTable& table_;
  std::map<std::uint8_t, std::uint16_t> uniform_blocks_;
};

// The table, and the signatures (bit i: member of set i) by symbol. Returns no signatures when one
// byte does not suffice.
std::vector<std::uint64_t> assign_symbols(const std::vector<CodePointSet>& sets,
                                          SymbolTable& table) {
  std::map<char32_t, std::uint64_t> toggles;  // bit i flips where set i begins or ends
  for (std::size_t i = 0; i < sets.size(); ++i) {
    for (const CodePointSet::Range& range : sets[i].ranges()) {
      toggles[range.first] ^= std::uint64_t{1} << i;
      toggles[range.last + 1] ^= std::uint64_t{1} << i;
    }
  }
  toggles[CodePointSet::kLastCodePoint + 1] ^= 0;  // ends the last interval
  std::vector<std::uint64_t> signatures;
  std::map<std::uint64_t, std::uint8_t> symbol_of;
  SymbolTableWriter writer(table);
  std::uint64_t signature = 0;
  char32_t begin = 0;
  for (const auto& [end, flips] : toggles) {
    const auto [entry, is_new] =
        symbol_of.try_emplace(signature, static_cast<std::uint8_t>(signatures.size()));
    if (is_new) signatures.push_back(signature);
    if (signatures.size() > kMaxSymbols) return {};
    writer.append(begin, end, entry->second);
    signature ^= flips;
    begin = end;
  }
  return signatures;
}

std::string symbol_class(const std::vector<std::uint64_t>& signatures, SetIndex set) {
  std::string text = "[";
  for (std::size_t symbol = 0; symbol < signatures.size(); ++symbol) {
    if ((signatures[symbol] >> set & 1) == 0) continue;
    char hexadecimal[8];
    std::snprintf(hexadecimal, sizeof hexadecimal, "\\x%02x", static_cast<unsigned>(symbol));
    text += hexadecimal;
  }
  if (text == "[") text += "\\xff";  // the empty set: a symbol that no text has
  return text + "]";
}

}  // namespace

Result<SymbolPattern> rewrite_to_symbols(std::string_view pattern) {
  if (pattern.empty() || pattern.size() > kMaxPatternBytes) {
    return invalid_argument("regular expression: expected 1 to " +
                            std::to_string(kMaxPatternBytes) + " bytes, got " +
                            std::to_string(pattern.size()));
  }
  if (first_invalid_utf8(pattern) != pattern.size()) {
    return invalid_argument("regular expression: expected valid UTF-8");
  }
  Parser parser(pattern);
  const auto parsed = parser.parse();
  if (!parsed) return parsed.error();
  SymbolPattern result;
  const auto signatures = assign_symbols(parser.sets(), result.symbols);
  if (signatures.empty()) {
    return invalid_argument(
        "regular expression: its classes tell more than 255 kinds of "
        "characters apart; expected fewer in '" +
        std::string(pattern) + "'");
  }
  for (const Part& part : parser.parts()) {
    const auto* set = std::get_if<SetIndex>(&part);
    result.pattern += set ? symbol_class(signatures, *set) : std::get<std::string>(part);
  }
  return result;
}

}  // namespace engramd::engine
