#include "engine/runtime/template/lexer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace engramd::engine::jinja {
namespace {

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_name(char c) {
  return is_name_start(c) || is_digit(c);
}

// Jinja reads every line ending as \n and drops one at the very end.
std::string normalise_newlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      text += source[i];
    } else {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalise_newlines(source)) {}

  Result<std::vector<Token>> run() {
    while (position_ < source_.size() && !error_) read_text_and_tag();
    if (error_) return *error_;
    push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  bool at(std::string_view text) const {
    return std::string_view(source_).substr(position_, text.size()) == text;
  }

  bool skip(std::string_view text) {
    if (!at(text)) return false;
    advance(text.size());
    return true;
  }

  void advance(std::size_t n) {
    for (; n > 0; --n) line_ += source_[position_++] == '\n';
  }

  void skip_spaces() {
    while (position_ < source_.size() && is_space(source_[position_])) advance(1);
  }

  void push(TokenKind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void fail(std::string_view what) {
    if (!error_) error_ = error_at(line_, what);
  }

  // The rest of a tag has been read but for its sign and end. True if it ends here.
  bool skip_tag_end(std::string_view end, bool trims_newline) {
    const bool strips = at(std::string("-") + std::string(end));
    const bool keeps = trims_newline && at(std::string("+") + std::string(end));
    if (!strips && !keeps && !at(end)) return false;
    advance(end.size() + (strips || keeps ? 1 : 0));
    if (strips) {
      skip_spaces();
    } else if (trims_newline && !keeps) {
      skip("\n");
    }
    return true;
  }

  // Text up to `end`; takes away the white space that the following tag's sign removes.
  void push_text(std::size_t end, char sign, bool strips_line_start) {
    const std::size_t begin = position_;
    std::string_view text = std::string_view(source_).substr(begin, end - begin);
    if (sign == '-') {
      while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
    } else if (sign != '+' && strips_line_start) {  // lstrip_blocks
      const std::size_t newline = text.rfind('\n');
      const std::size_t line_start = newline == std::string_view::npos ? 0 : newline + 1;
      const bool starts_line =
          newline != std::string_view::npos || begin == 0 || source_[begin - 1] == '\n';
      const std::string_view indent = text.substr(line_start);
      if (starts_line && std::all_of(indent.begin(), indent.end(), is_space)) {
        text = text.substr(0, line_start);
      }
    }
    if (!text.empty()) push(TokenKind::kText, std::string(text));
    advance(end - begin);
  }

  void read_text_and_tag() {
    std::size_t tag = source_.find('{', position_);
    while (tag != std::string::npos &&
           (tag + 1 == source_.size() ||
            std::string_view("{%#").find(source_[tag + 1]) == std::string_view::npos)) {
      tag = source_.find('{', tag + 1);
    }
    if (tag == std::string::npos) return push_text(source_.size(), '+', false);
    const char type = source_[tag + 1];
    char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    if (sign != '-' && sign != '+') sign = '\0';
    push_text(tag, sign, type != '{');
    advance(sign == '\0' ? 2 : 3);
    if (type == '#') return skip_comment();
    if (type == '%' && skip_raw()) return;
    const bool is_block = type == '%';
    push(is_block ? TokenKind::kBlockBegin : TokenKind::kVariableBegin, "");
    read_tag(is_block);
  }

  void skip_comment() {
    const std::size_t end = source_.find("#}", position_);
    if (end == std::string::npos) return fail("comment {# without its end #}");
    const char sign = end > position_ ? source_[end - 1] : '\0';
    advance(end - position_ - (sign == '-' || sign == '+' ? 1 : 0));
    skip_tag_end("#}", true);
  }

  // {% raw %} ... {% endraw %}: the text between, as it is. False: some other tag.
  bool skip_raw() {
    const std::size_t start = position_;
    const int start_line = line_;
    skip_spaces();
    if (skip("raw")) {
      skip_spaces();
      if (skip_tag_end("%}", false)) return read_raw_body(), true;
    }
    position_ = start;
    line_ = start_line;
    return false;
  }

  void read_raw_body() {
    for (std::size_t tag = source_.find("{%", position_); tag != std::string::npos;
         tag = source_.find("{%", tag + 2)) {
      std::size_t name = tag + 2;
      char sign = name < source_.size() ? source_[name] : '\0';
      if (sign == '-' || sign == '+') ++name;
      while (name < source_.size() && is_space(source_[name])) ++name;
      if (source_.compare(name, 6, "endraw") != 0) continue;
      push_text(tag, sign, true);
      advance(name + 6 - position_);
      skip_spaces();
      if (!skip_tag_end("%}", true)) fail("expected %} after endraw");
      return;
    }
    fail("{% raw %} without {% endraw %}");
  }

  void read_tag(bool is_block) {
    std::string open_brackets;
    while (!error_) {
      skip_spaces();
      if (position_ == source_.size()) {
        return fail(is_block ? "tag {% without its end %}" : "tag {{ without its end }}");
      }
      if (open_brackets.empty() && skip_tag_end(is_block ? "%}" : "}}", is_block)) {
        return push(is_block ? TokenKind::kBlockEnd : TokenKind::kVariableEnd, "");
      }
      const char c = source_[position_];
      if (is_name_start(c)) {
        read_name();
      } else if (is_digit(c)) {
        read_number();
      } else if (c == '"' || c == '\'') {
        read_string(c);
      } else {
        read_operator(open_brackets);
      }
    }
  }

  void read_name() {
    std::size_t end = position_;
    while (end < source_.size() && is_name(source_[end])) ++end;
    push(TokenKind::kName, source_.substr(position_, end - position_));
    advance(end - position_);
  }

  void read_number() {
    std::string text;
    const auto digits = [&] {
      while (position_ < source_.size() && (is_digit(source_[position_]) || at("_"))) {
        if (!at("_")) text += source_[position_];
        advance(1);
      }
    };
    const auto digit_at = [&](std::size_t i) { return i < source_.size() && is_digit(source_[i]); };
    digits();
    TokenKind kind = TokenKind::kInteger;
    if (at(".") && digit_at(position_ + 1)) {
      kind = TokenKind::kFloat;
      text += '.';
      advance(1);
      digits();
    }
    if (at("e") || at("E")) {
      const std::size_t sign =
          position_ + 1 < source_.size() &&
          std::string_view("+-").find(source_[position_ + 1]) != std::string_view::npos;
      if (digit_at(position_ + 1 + sign)) {
        kind = TokenKind::kFloat;
        text += source_.substr(position_, 1 + sign);
        advance(1 + sign);
        digits();
      }
    }
    push(kind, std::move(text));
  }

  void read_operator(std::string& open_brackets) {
    constexpr std::array<std::string_view, 6> kPairs = {"==", "!=", "<=", ">=", "//", "**"};
    constexpr std::string_view kSingles = "+-*/%~[](){}<>=.:|,";
    for (const std::string_view pair : kPairs) {
      if (at(pair)) {
        push(TokenKind::kOperator, std::string(pair));
        return advance(2);
      }
    }
    const char c = source_[position_];
    if (kSingles.find(c) == std::string_view::npos) {
      return fail(std::string("unexpected character '") + c + "'");
    }
    constexpr std::string_view kOpening = "([{", kClosing = ")]}";
    if (kOpening.find(c) != std::string_view::npos) open_brackets += c;
    if (const auto which = kClosing.find(c); which != std::string_view::npos) {
      if (open_brackets.empty() || open_brackets.back() != kOpening[which]) {
        return fail(std::string("unexpected '") + c + "'");
      }
      open_brackets.pop_back();
    }
    push(TokenKind::kOperator, std::string(1, c));
    advance(1);
  }

  void read_string(char quote) {
    advance(1);
    std::string text;
    while (position_ < source_.size() && source_[position_] != quote && !error_) {
      if (source_[position_] == '\\' && position_ + 1 < source_.size()) {
        read_escape(text);
      } else {
        text += source_[position_];
        advance(1);
      }
    }
    if (position_ == source_.size()) return fail("string without its closing quote");
    push(TokenKind::kString, std::move(text));
    advance(1);
  }

  // Python's escapes; an unknown one keeps its backslash.
  void read_escape(std::string& text) {
    constexpr std::string_view kNames = "ntr\\'\"abfv", kMeanings = "\n\t\r\\'\"\a\b\f\v";
    const char c = source_[position_ + 1];
    if (const auto which = kNames.find(c); which != std::string_view::npos) {
      text += kMeanings[which];
      return advance(2);
    }
    if (c == '\n') return advance(2);
    if (c >= '0' && c <= '7') return read_code(text, 1, 3, 8);
    if (c == 'x') return read_code(text, 2, 2, 16);
    if (c == 'u') return read_code(text, 2, 4, 16);
    if (c == 'U') return read_code(text, 2, 8, 16);
    text += '\\';
    advance(1);
  }

  // Up to `digits` digits from `offset` after the backslash; hexadecimal needs all of them.
  void read_code(std::string& text, std::size_t offset, std::size_t digits, char32_t base) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    char32_t code = 0;
    std::size_t n = 0;
    for (; n < digits && position_ + offset + n < source_.size(); ++n) {
      const char c = source_[position_ + offset + n];
      const auto digit = kDigits.find(c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c);
      if (digit >= base) break;
      code = code * base + static_cast<char32_t>(digit);
    }
    if ((base == 16 && n < digits) || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
      return fail("escape in a string is no Unicode character");
    }
    append_utf8(text, code);
    advance(offset + n);
  }

  std::string source_;
  std::size_t position_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
  std::optional<Error> error_;  // the first
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source) {
  return Lexer(source).run();
}

Error error_at(int line, std::string_view what) {
  std::string message = "chat template, line " + std::to_string(line) + ": ";
  for (const char c : what.substr(0, 1000)) message += static_cast<unsigned char>(c) < 32 ? ' ' : c;
  return invalid_argument(std::move(message));
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

}  // namespace engramd::engine::jinja
