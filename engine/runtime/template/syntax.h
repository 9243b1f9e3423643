// The syntax tree of a chat template. Built by the parser, read by the interpreter, immutable after
// that. Its depth is bounded by the parser, so recursion over it is safe.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/runtime/template/value.h"

namespace engramd::engine::jinja {

enum class Operator {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kConcatenate,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
};

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

struct Expression {
  enum class Kind {
    kLiteral,      // literal
    kName,         // name
    kList,         // operands
    kDict,         // operands: key, value, key, value, ...
    kNot,          // operand
    kNegate,       // operand
    kPlus,         // operand
    kAnd,          // operands: two or more
    kOr,           // operands: two or more
    kArithmetic,   // operands joined by operators, left to right
    kCompare,      // operands joined by operators, a < b < c
    kConditional,  // operands: condition, then, else or null
    kAttribute,    // operand . name
    kSubscript,    // operands: object, key
    kSlice,        // operands: object, start, stop, step; the last three may be null
    kCall,         // operands: callee, arguments
    kFilter,       // operands: input, arguments; name
    kTest,         // operands: value, arguments; name
  };
  Kind kind = Kind::kLiteral;
  int line = 1;
  Value literal = {};
  std::string name = {};
  std::vector<ExpressionPtr> operands = {};
  std::vector<Operator> operators = {};                           // one fewer than operands
  std::vector<std::pair<std::string, ExpressionPtr>> named = {};  // keyword arguments
};

struct Statement;
using Body = std::vector<Statement>;

struct Statement {
  enum class Kind {
    kText,          // text
    kOutput,        // expressions[0]
    kIf,            // expressions: conditions; bodies: one each, then perhaps else
    kFor,           // names: targets; expressions: iterable, perhaps filter; bodies: body, else
    kSet,           // names: targets; expressions[0]
    kSetAttribute,  // names: namespace, attribute; expressions[0]
    kSetBlock,      // names[0]; bodies[0]
    kMacro,         // text: its name; names: parameters; expressions: defaults or null; bodies[0]
    kSection,       // bodies[0]; transformers' {% generation %}
    kBreak,
    kContinue,
  };
  Kind kind = Kind::kText;
  int line = 1;
  std::string text = {};
  std::vector<std::string> names = {};
  std::vector<ExpressionPtr> expressions = {};
  std::vector<Body> bodies = {};
};

}  // namespace engramd::engine::jinja
