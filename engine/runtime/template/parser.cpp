#include "engine/runtime/template/parser.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <optional>

#include "engine/runtime/template/filters.h"
#include "engine/runtime/template/lexer.h"

namespace engramd::engine::jinja {
namespace {

using Kind = Expression::Kind;

// Recursive descent after Jinja's own grammar. On the first error the position moves to the end of
// the tokens, where every loop stops; what is returned then is not looked at.
class Parser {
 public:
  Parser(std::vector<Token> tokens, int depth_max)
      : tokens_(std::move(tokens)), depth_max_(depth_max) {}

  Result<Body> run() {
    Body body = parse_body({});
    if (!error_ && peek().kind != TokenKind::kEnd) fail("unexpected tag '" + peek(1).text + "'");
    if (error_) return *error_;
    return body;
  }

 private:
  // ---- tokens

  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(position_ + ahead, tokens_.size() - 1)];
  }
  Token take() {
    const Token& token = peek();
    if (position_ + 1 < tokens_.size()) ++position_;
    return token;
  }
  bool at(TokenKind kind, std::string_view text, std::size_t ahead = 0) const {
    return peek(ahead).kind == kind && peek(ahead).text == text;
  }
  bool at_operator(std::string_view text) const { return at(TokenKind::kOperator, text); }
  bool skip(TokenKind kind, std::string_view text) {
    if (!at(kind, text)) return false;
    take();
    return true;
  }
  bool skip_operator(std::string_view text) { return skip(TokenKind::kOperator, text); }
  bool skip_name(std::string_view text) { return skip(TokenKind::kName, text); }

  void fail(const std::string& what) {
    if (!error_) error_ = error_at(peek().line, what);
    position_ = tokens_.size() - 1;
  }
  std::string seen() const {
    if (peek().kind == TokenKind::kBlockEnd) return "%}";
    if (peek().kind == TokenKind::kVariableEnd) return "}}";
    return peek().kind == TokenKind::kEnd ? "the end of the template" : "'" + peek().text + "'";
  }
  void expect_operator(std::string_view text) {
    if (!skip_operator(text)) fail("expected '" + std::string(text) + "', got " + seen());
  }
  void expect(TokenKind kind, const char* what) {
    if (peek().kind != kind) return fail(std::string("expected ") + what + ", got " + seen());
    take();
  }
  std::string expect_name(const char* what) {
    if (peek().kind == TokenKind::kName) return take().text;
    fail(std::string("expected ") + what + ", got " + seen());
    return {};
  }

  // Counts nesting; when it is too deep, the rest of the template counts as read.
  class Nesting {
   public:
    explicit Nesting(Parser& parser) : parser_(parser) { parser_.nest(); }
    ~Nesting() { --parser_.depth_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    Parser& parser_;
  };
  void nest(int levels = 1) {
    depth_ += levels;
    if (depth_ <= depth_max_ || error_) return;
    fail("nested deeper than " + std::to_string(depth_max_) + " levels (depth_max)");
    error_->kind = ErrorKind::kLimitExceeded;
  }

  // ---- statements

  // Up to a block tag whose name is one of `ends`; its {% and name are left to the caller.
  Body parse_body(std::initializer_list<std::string_view> ends) {
    const Nesting nesting(*this);
    Body body;
    while (peek().kind != TokenKind::kEnd) {
      if (peek().kind == TokenKind::kText) {
        body.push_back({.kind = Statement::Kind::kText, .line = peek().line});
        body.back().text = take().text;
      } else if (peek().kind == TokenKind::kVariableBegin) {
        take();
        body.push_back({.kind = Statement::Kind::kOutput, .line = peek().line});
        body.back().expressions.push_back(parse_expression());
        expect(TokenKind::kVariableEnd, "}}");
      } else {
        if (std::find(ends.begin(), ends.end(), peek(1).text) != ends.end()) return body;
        take();
        parse_tag(body);
      }
    }
    if (ends.size() > 0) fail("expected {% " + std::string(*(ends.end() - 1)) + " %}");
    return body;
  }

  // The end tag of a body whose parse_body() has stopped before it.
  void take_end_tag() {
    take();
    take();
    end_tag();
  }
  void end_tag() { expect(TokenKind::kBlockEnd, "%}"); }

  void parse_tag(Body& body) {
    Statement statement{.line = peek().line};
    const std::string name = expect_name("the name of a tag");
    if (name == "if") {
      parse_if(statement);
    } else if (name == "for") {
      parse_for(statement);
    } else if (name == "set") {
      parse_set(statement);
    } else if (name == "macro") {
      parse_macro(statement);
    } else if (name == "generation") {
      statement.kind = Statement::Kind::kSection;
      end_tag();
      statement.bodies.push_back(parse_body({"endgeneration"}));
      take_end_tag();
    } else if (name == "break" || name == "continue") {
      statement.kind = name == "break" ? Statement::Kind::kBreak : Statement::Kind::kContinue;
      if (loops_ == 0) fail(name + " outside a for loop");
      end_tag();
    } else {
      fail("unknown tag '" + name +
           "'; expected if, for, set, macro, generation, raw, break or continue");
    }
    body.push_back(std::move(statement));
  }

  void parse_if(Statement& statement) {
    statement.kind = Statement::Kind::kIf;
    do {
      statement.expressions.push_back(parse_expression());
      end_tag();
      statement.bodies.push_back(parse_body({"elif", "else", "endif"}));
      take();
    } while (skip_name("elif"));
    if (skip_name("else")) {
      end_tag();
      statement.bodies.push_back(parse_body({"endif"}));
      take();
    }
    if (!skip_name("endif")) fail("expected endif, got " + seen());
    end_tag();
  }

  void parse_for(Statement& statement) {
    statement.kind = Statement::Kind::kFor;
    statement.names = parse_targets();
    if (!skip_name("in")) fail("expected 'in', got " + seen());
    statement.expressions.push_back(parse_or());
    if (skip_name("if")) statement.expressions.push_back(parse_expression());
    if (at(TokenKind::kName, "recursive")) fail("recursive loops are not supported");
    end_tag();
    ++loops_;
    statement.bodies.push_back(parse_body({"else", "endfor"}));
    --loops_;
    take();
    if (skip_name("else")) {
      end_tag();
      statement.bodies.push_back(parse_body({"endfor"}));
      take();
    }
    if (!skip_name("endfor")) fail("expected endfor, got " + seen());
    end_tag();
  }

  std::vector<std::string> parse_targets() {
    std::vector<std::string> names;
    const bool parenthesis = skip_operator("(");
    do {
      names.push_back(expect_name("the name of a variable"));
    } while (skip_operator(","));
    if (parenthesis) expect_operator(")");
    return names;
  }

  void parse_set(Statement& statement) {
    statement.kind = Statement::Kind::kSet;
    statement.names = parse_targets();
    if (statement.names.size() == 1 && skip_operator(".")) {
      statement.kind = Statement::Kind::kSetAttribute;
      statement.names.push_back(expect_name("the name of an attribute"));
    }
    if (statement.names.size() == 1 && peek().kind == TokenKind::kBlockEnd) {
      statement.kind = Statement::Kind::kSetBlock;
      end_tag();
      statement.bodies.push_back(parse_body({"endset"}));
      return take_end_tag();
    }
    expect_operator("=");
    ExpressionPtr value = parse_expression();
    if (at_operator(",")) value = parse_rest_of_tuple(std::move(value));
    statement.expressions.push_back(std::move(value));
    end_tag();
  }

  void parse_macro(Statement& statement) {
    statement.kind = Statement::Kind::kMacro;
    statement.text = expect_name("the name of a macro");
    expect_operator("(");
    while (!at_operator(")") && !error_) {
      statement.names.push_back(expect_name("the name of a parameter"));
      statement.expressions.push_back(skip_operator("=") ? parse_expression() : nullptr);
      if (!skip_operator(",")) break;
    }
    expect_operator(")");
    end_tag();
    const int loops_outside = std::exchange(loops_, 0);
    statement.bodies.push_back(parse_body({"endmacro"}));
    loops_ = loops_outside;
    take_end_tag();
  }

  // ---- expressions

  template <class... Operands>
  std::unique_ptr<Expression> make(Kind kind, Operands... operands) {
    auto node = std::make_unique<Expression>();
    node->kind = kind;
    node->line = peek().line;
    (node->operands.push_back(std::move(operands)), ...);
    return node;
  }

  std::unique_ptr<Expression> make_literal(Value value) {
    auto node = make(Kind::kLiteral);
    node->literal = std::move(value);
    return node;
  }

  ExpressionPtr parse_expression() {
    const Nesting nesting(*this);
    ExpressionPtr value = parse_or();
    if (!skip_name("if")) return value;
    ExpressionPtr condition = parse_or();
    ExpressionPtr otherwise = skip_name("else") ? parse_expression() : nullptr;
    return make(Kind::kConditional, std::move(condition), std::move(value), std::move(otherwise));
  }

  ExpressionPtr parse_or() {
    ExpressionPtr first = parse_and();
    if (!at(TokenKind::kName, "or")) return first;
    auto node = make(Kind::kOr, std::move(first));
    while (skip_name("or")) node->operands.push_back(parse_and());
    return node;
  }

  ExpressionPtr parse_and() {
    ExpressionPtr first = parse_not();
    if (!at(TokenKind::kName, "and")) return first;
    auto node = make(Kind::kAnd, std::move(first));
    while (skip_name("and")) node->operands.push_back(parse_not());
    return node;
  }

  ExpressionPtr parse_not() {
    if (!skip_name("not")) return parse_compare();
    const Nesting nesting(*this);
    return make(Kind::kNot, parse_not());
  }

  std::optional<Operator> take_comparison() {
    constexpr std::array<std::pair<std::string_view, Operator>, 6> kSpellings = {{
        {"==", Operator::kEqual},
        {"!=", Operator::kNotEqual},
        {"<=", Operator::kLessEqual},
        {">=", Operator::kGreaterEqual},
        {"<", Operator::kLess},
        {">", Operator::kGreater},
    }};
    for (const auto& [text, comparison] : kSpellings) {
      if (skip_operator(text)) return comparison;
    }
    if (skip_name("in")) return Operator::kIn;
    if (at(TokenKind::kName, "not") && at(TokenKind::kName, "in", 1)) {
      take();
      take();
      return Operator::kNotIn;
    }
    return std::nullopt;
  }

  ExpressionPtr parse_compare() {
    ExpressionPtr first = parse_arithmetic(0);
    std::optional<Operator> comparison = take_comparison();
    if (!comparison) return first;
    auto node = make(Kind::kCompare, std::move(first));
    for (; comparison; comparison = take_comparison()) {
      node->operators.push_back(*comparison);
      node->operands.push_back(parse_arithmetic(0));
    }
    return node;
  }

  std::optional<Operator> take_arithmetic(std::size_t level) {
    struct Row {
      std::size_t level;
      std::string_view text;
      Operator operation;
    };
    constexpr std::array<Row, 8> kRows = {{
        {0, "+", Operator::kAdd},
        {0, "-", Operator::kSubtract},
        {1, "~", Operator::kConcatenate},
        {2, "*", Operator::kMultiply},
        {2, "/", Operator::kDivide},
        {2, "//", Operator::kFloorDivide},
        {2, "%", Operator::kModulo},
        {3, "**", Operator::kPower},
    }};
    for (const Row& row : kRows) {
      if (row.level == level && skip_operator(row.text)) return row.operation;
    }
    return std::nullopt;
  }

  ExpressionPtr parse_arithmetic(std::size_t level) {
    constexpr std::size_t kLevels = 4;
    if (level == kLevels) return parse_unary(true);
    ExpressionPtr first = parse_arithmetic(level + 1);
    std::optional<Operator> operation = take_arithmetic(level);
    if (!operation) return first;
    auto node = make(Kind::kArithmetic, std::move(first));
    for (; operation; operation = take_arithmetic(level)) {
      node->operators.push_back(*operation);
      node->operands.push_back(parse_arithmetic(level + 1));
    }
    return node;
  }

  // A sign binds tighter than a filter: -1|abs is (-1)|abs.
  ExpressionPtr parse_unary(bool with_filters) {
    const int depth_outside = depth_;
    ExpressionPtr value;
    if (at_operator("-") || at_operator("+")) {
      const Nesting nesting(*this);
      const Kind kind = take().text == "-" ? Kind::kNegate : Kind::kPlus;
      value = make(kind, parse_unary(false));
    } else {
      value = parse_primary();
    }
    value = parse_postfix(std::move(value));
    if (with_filters) value = parse_filters_and_tests(std::move(value));
    depth_ = depth_outside;  // a chain a.b.c nests one level for each link
    return value;
  }

  ExpressionPtr parse_postfix(ExpressionPtr value) {
    while (!error_) {
      if (skip_operator(".")) {
        auto node = make(Kind::kAttribute, std::move(value));
        if (peek().kind == TokenKind::kInteger) {  // a.0 is a[0]
          node->kind = Kind::kSubscript;
          node->operands.push_back(parse_primary());
        } else {
          node->name = expect_name("the name of an attribute");
        }
        value = std::move(node);
      } else if (at_operator("[")) {
        value = parse_subscript(std::move(value));
      } else if (at_operator("(")) {
        auto node = make(Kind::kCall, std::move(value));
        parse_arguments(*node);
        value = std::move(node);
      } else {
        break;
      }
      nest();
    }
    return value;
  }

  ExpressionPtr parse_subscript(ExpressionPtr value) {
    expect_operator("[");
    auto node = make(Kind::kSubscript, std::move(value));
    node->operands.push_back(at_operator(":") ? nullptr : parse_expression());
    if (at_operator(":")) {
      node->kind = Kind::kSlice;
      while (node->operands.size() < 4 && skip_operator(":")) {
        const bool absent = at_operator(":") || at_operator("]");
        node->operands.push_back(absent ? nullptr : parse_expression());
      }
      node->operands.resize(4);
    }
    expect_operator("]");
    return node;
  }

  void parse_arguments(Expression& node) {
    expect_operator("(");
    while (!at_operator(")") && !error_) {
      if (peek().kind == TokenKind::kName && at(TokenKind::kOperator, "=", 1)) {
        std::string name = take().text;
        take();
        node.named.emplace_back(std::move(name), parse_expression());
      } else if (!node.named.empty()) {
        fail("a positional argument after a named one");
      } else {
        node.operands.push_back(parse_expression());
      }
      if (!skip_operator(",")) break;
    }
    expect_operator(")");
  }

  ExpressionPtr parse_filters_and_tests(ExpressionPtr value) {
    while (!error_) {
      if (skip_operator("|")) {
        auto node = make(Kind::kFilter, std::move(value));
        node->name = expect_name("the name of a filter");
        if (!error_ && !is_filter(node->name)) fail("unknown filter '" + node->name + "'");
        if (at_operator("(")) parse_arguments(*node);
        value = std::move(node);
      } else if (skip_name("is")) {
        value = parse_test(std::move(value));
      } else if (at_operator("(")) {
        auto node = make(Kind::kCall, std::move(value));
        parse_arguments(*node);
        value = std::move(node);
      } else {
        break;
      }
      nest();
    }
    return value;
  }

  ExpressionPtr parse_test(ExpressionPtr value) {
    const bool negated = skip_name("not");
    auto node = make(Kind::kTest, std::move(value));
    node->name = expect_name("the name of a test");
    if (!error_ && !is_test(node->name)) fail("unknown test '" + node->name + "'");
    const Token& next = peek();
    const bool starts_operand =
        next.kind == TokenKind::kString || next.kind == TokenKind::kInteger ||
        next.kind == TokenKind::kFloat || at_operator("[") || at_operator("{") ||
        (next.kind == TokenKind::kName && next.text != "else" && next.text != "or" &&
         next.text != "and" && next.text != "if" && next.text != "is" && next.text != "in" &&
         next.text != "not");
    if (at_operator("(")) {
      parse_arguments(*node);
    } else if (starts_operand) {
      node->operands.push_back(parse_postfix(parse_primary()));
    }
    if (!negated) return node;
    return make(Kind::kNot, ExpressionPtr(std::move(node)));
  }

  ExpressionPtr parse_primary() {
    const Token token = take();
    if (token.kind == TokenKind::kName) {
      if (token.text == "true" || token.text == "True") return make_literal({true});
      if (token.text == "false" || token.text == "False") return make_literal({false});
      if (token.text == "none" || token.text == "None") return make_literal({None{}});
      auto node = make(Kind::kName);
      node->name = token.text;
      return node;
    }
    if (token.kind == TokenKind::kString) {
      std::string text = token.text;
      while (peek().kind == TokenKind::kString) text += take().text;
      return make_literal({std::make_shared<const std::string>(std::move(text))});
    }
    if (token.kind == TokenKind::kInteger) return parse_number<std::int64_t>(token.text);
    if (token.kind == TokenKind::kFloat) return parse_number<double>(token.text);
    if (token.kind == TokenKind::kOperator && token.text == "(") return parse_parenthesis();
    if (token.kind == TokenKind::kOperator && token.text == "[") {
      auto node = make(Kind::kList);
      parse_items(*node, "]");
      return node;
    }
    if (token.kind == TokenKind::kOperator && token.text == "{") return parse_dict();
    if (position_ > 0 && token.kind != TokenKind::kEnd) --position_;
    fail("expected a value, got " + seen());
    return make_literal({});
  }

  template <class Number>
  ExpressionPtr parse_number(const std::string& text) {
    Number number{};
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (status != std::errc()) fail("number " + text.substr(0, 40) + " is out of range");
    return make_literal({number});
  }

  ExpressionPtr parse_parenthesis() {
    if (skip_operator(")")) return make(Kind::kList);  // the empty tuple
    ExpressionPtr value = parse_expression();
    if (at_operator(",")) value = parse_rest_of_tuple(std::move(value));
    expect_operator(")");
    return value;
  }

  // Tuples are lists here.
  ExpressionPtr parse_rest_of_tuple(ExpressionPtr first) {
    auto node = make(Kind::kList, std::move(first));
    while (skip_operator(",") && !at_operator(")") && peek().kind != TokenKind::kBlockEnd) {
      node->operands.push_back(parse_expression());
    }
    return node;
  }

  void parse_items(Expression& node, std::string_view end) {
    while (!at_operator(end) && !error_) {
      node.operands.push_back(parse_expression());
      if (!skip_operator(",")) break;
    }
    expect_operator(end);
  }

  ExpressionPtr parse_dict() {
    auto node = make(Kind::kDict);
    while (!at_operator("}") && !error_) {
      node->operands.push_back(parse_expression());
      expect_operator(":");
      node->operands.push_back(parse_expression());
      if (!skip_operator(",")) break;
    }
    expect_operator("}");
    return node;
  }

  std::vector<Token> tokens_;
  std::size_t position_ = 0;
  int depth_max_;
  int depth_ = 0;
  int loops_ = 0;  // around the current tag
  std::optional<Error> error_;
};

}  // namespace

Result<Body> parse(std::string_view source, int depth_max) {
  Result<std::vector<Token>> tokens = tokenize(source);
  if (!tokens.has_value()) return tokens.error();
  return Parser(std::move(*tokens), depth_max).run();
}

}  // namespace engramd::engine::jinja
