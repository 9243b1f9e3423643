#include "engine/runtime/template/interpreter.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/runtime/template/filters.h"
#include "engine/runtime/template/methods.h"
#include "engine/runtime/template/operators.h"

namespace engramd::engine::jinja {
namespace {

using Kind = Expression::Kind;
using Frame = std::unordered_map<std::string_view, Value>;  // names live in the syntax tree

// Recursion of the interpreter, macros included, per level that the parser allows.
constexpr int kRunDepthPerParseDepth = 4;

class Interpreter {
 public:
  Interpreter(Execution& run, const TemplateBudget& budget)
      : run_(run), depth_max_(budget.depth_max * kRunDepthPerParseDepth), frames_(1) {}

  void define(std::string_view name, Value value) { frames_[0][name] = std::move(value); }

  std::string render(const Body& body) {
    std::string output;
    output_ = &output;
    execute(body);
    return output;
  }

 private:
  enum class Flow { kNext, kBreak, kContinue };

  bool enter(int line) {
    run_.set_line(line);
    if (!run_.charge(1)) return false;
    if (depth_ < depth_max_) return true;
    run_.fail("recursion deeper than " + std::to_string(depth_max_) + " (4 times depth_max)");
    return false;
  }

  // ---- statements

  Flow execute(const Body& body) {
    for (const Statement& statement : body) {
      if (!enter(statement.line)) return Flow::kNext;
      ++depth_;
      const Flow flow = execute(statement);
      --depth_;
      if (flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  Flow execute(const Statement& s) {
    switch (s.kind) {
      case Statement::Kind::kText:
        run_.append(*output_, s.text);
        break;
      case Statement::Kind::kOutput:
        append_text(run_, *output_, evaluate(*s.expressions[0]));
        break;
      case Statement::Kind::kIf:
        return execute_if(s);
      case Statement::Kind::kFor:
        execute_for(s);
        break;
      case Statement::Kind::kSet:
        assign(s.names, evaluate(*s.expressions[0]));
        break;
      case Statement::Kind::kSetAttribute:
        set_attribute(s);
        break;
      case Statement::Kind::kSetBlock:
        frames_.back()[s.names[0]] = run_.text(capture(s.bodies[0]));
        break;
      case Statement::Kind::kMacro:
        frames_.back()[s.text] = {Function{s.text, nullptr, &s}};
        break;
      case Statement::Kind::kSection:
        return execute(s.bodies[0]);
      case Statement::Kind::kBreak:
        return Flow::kBreak;
      case Statement::Kind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kNext;
  }

  Flow execute_if(const Statement& s) {
    for (std::size_t i = 0; i < s.bodies.size(); ++i) {
      if (i == s.expressions.size() || truthy(evaluate(*s.expressions[i]))) {
        return execute(s.bodies[i]);
      }
    }
    return Flow::kNext;
  }

  void execute_for(const Statement& s) {
    List items = iterate(run_, evaluate(*s.expressions[0]));
    if (s.expressions.size() > 1) items = filtered(s, items);
    if (items->items.empty()) {
      if (s.bodies.size() > 1) scoped(s.bodies[1]);
      return;
    }
    const auto loop = std::make_shared<LoopData>(LoopData{items});
    for (const Value& item : items->items) {
      if (!run_.charge(1)) break;
      frames_.emplace_back();
      frames_.back()["loop"] = {loop};
      assign(s.names, item);
      const Flow flow = execute(s.bodies[0]);
      frames_.pop_back();
      ++loop->index0;
      if (flow == Flow::kBreak) break;
    }
  }

  List filtered(const Statement& s, const List& items) {
    std::vector<Value> kept;
    frames_.emplace_back();
    for (const Value& item : items->items) {
      if (!run_.charge(1)) break;
      assign(s.names, item);
      if (truthy(evaluate(*s.expressions[1]))) kept.push_back(item);
    }
    frames_.pop_back();
    return iterate(run_, run_.list(std::move(kept)));
  }

  void scoped(const Body& body) {
    frames_.emplace_back();
    execute(body);
    frames_.pop_back();
  }

  void assign(const std::vector<std::string>& names, Value value) {
    if (names.size() == 1) {
      frames_.back()[names[0]] = std::move(value);
      return;
    }
    const List items = iterate(run_, value);
    if (run_.failed()) return;
    if (items->items.size() != names.size()) {
      run_.fail("cannot unpack " + std::to_string(items->items.size()) + " values into " +
                std::to_string(names.size()) + " names");
      return;
    }
    for (std::size_t i = 0; i < names.size(); ++i) frames_.back()[names[i]] = items->items[i];
  }

  void set_attribute(const Statement& s) {
    const Value target = look_up(s.names[0]);
    Value value = evaluate(*s.expressions[0]);
    const Namespace* space = target.as<Namespace>();
    if (space == nullptr) {
      if (!run_.failed())
        run_.fail("only a namespace's attributes can be set, got " +
                  std::string(type_name(target)));
      return;
    }
    (*space)->entries[s.names[1]] = std::move(value);
  }

  std::string capture(const Body& body) {
    std::string captured;
    std::string* const outer = std::exchange(output_, &captured);
    scoped(body);
    output_ = outer;
    return captured;
  }

  // ---- expressions

  Value look_up(std::string_view name) {
    for (std::size_t i = frames_.size(); i-- > frame_base_;) {
      if (const auto found = frames_[i].find(name); found != frames_[i].end()) return found->second;
    }
    // a macro sees its own frames and the outermost one
    if (const auto found = frames_[0].find(name); found != frames_[0].end()) return found->second;
    if (const auto global = find_global(name)) return {Function{*global, nullptr}};
    return {Undefined{"'" + std::string(name.substr(0, 100)) + "' is undefined"}};
  }

  Value evaluate(const Expression& e) {
    if (!enter(e.line)) return {};
    ++depth_;
    Value value = evaluate_kind(e);
    --depth_;
    return value;
  }

  Value operand(const Expression& e, std::size_t i) { return evaluate(*e.operands[i]); }
  Value operand_or_none(const Expression& e, std::size_t i) {
    return e.operands[i] == nullptr ? Value{None{}} : evaluate(*e.operands[i]);
  }

  Value evaluate_kind(const Expression& e) {
    switch (e.kind) {
      case Kind::kLiteral:
        return e.literal;
      case Kind::kName:
        return look_up(e.name);
      case Kind::kList:
        return evaluate_list(e);
      case Kind::kDict:
        return evaluate_dict(e);
      case Kind::kNot:
        return {!truthy(operand(e, 0))};
      case Kind::kNegate:
        return negate(run_, operand(e, 0));
      case Kind::kPlus:
        return arithmetic(run_, Operator::kAdd, {std::int64_t{0}}, operand(e, 0));
      case Kind::kAnd:
      case Kind::kOr:
        return evaluate_logic(e);
      case Kind::kArithmetic:
        return evaluate_arithmetic(e);
      case Kind::kCompare:
        return evaluate_compare(e);
      case Kind::kConditional:
        if (truthy(operand(e, 0))) return operand(e, 1);
        return e.operands[2] != nullptr
                   ? operand(e, 2)
                   : Value{Undefined{"the inline if was false and has no else"}};
      case Kind::kAttribute:
        return attribute(run_, operand(e, 0), e.name);
      case Kind::kSubscript: {
        const Value object = operand(e, 0);
        return subscript(run_, object, operand(e, 1));
      }
      case Kind::kSlice: {
        const Value object = operand(e, 0), start = operand_or_none(e, 1),
                    stop = operand_or_none(e, 2);
        return slice(run_, object, start, stop, operand_or_none(e, 3));
      }
      case Kind::kCall:
        return evaluate_call(e);
      case Kind::kFilter: {
        const Value input = operand(e, 0);
        return apply_filter(run_, e.name, input, evaluate_arguments(e));
      }
      case Kind::kTest: {
        const Value input = operand(e, 0);
        return {apply_test(run_, e.name, input, evaluate_arguments(e))};
      }
    }
    return {};
  }

  Value evaluate_list(const Expression& e) {
    std::vector<Value> items;
    for (std::size_t i = 0; i < e.operands.size(); ++i) items.push_back(operand(e, i));
    return run_.list(std::move(items));
  }

  Value evaluate_dict(const Expression& e) {
    std::vector<std::pair<std::string, Value>> entries;
    for (std::size_t i = 0; i < e.operands.size() && !run_.failed(); i += 2) {
      const Value key = operand(e, i);
      if (!key.is<Text>())
        return run_.fail(std::string("dict keys must be strings, got ") + type_name(key));
      Value value = operand(e, i + 1);
      if (!run_.charge(static_cast<std::int64_t>(entries.size()) / 16)) break;
      std::size_t at = 0;
      while (at < entries.size() && entries[at].first != **key.as<Text>()) ++at;
      if (at == entries.size()) entries.emplace_back(**key.as<Text>(), Value{});
      entries[at].second = std::move(value);
    }
    return run_.object(std::move(entries));
  }

  // `and` and `or` give an operand, as Python's do.
  Value evaluate_logic(const Expression& e) {
    Value value = operand(e, 0);
    for (std::size_t i = 1; i < e.operands.size(); ++i) {
      if (truthy(value) == (e.kind == Kind::kOr)) break;
      value = operand(e, i);
    }
    return value;
  }

  Value evaluate_arithmetic(const Expression& e) {
    Value value = operand(e, 0);
    for (std::size_t i = 0; i < e.operators.size() && !run_.failed(); ++i) {
      const Value right = operand(e, i + 1);
      run_.set_line(e.line);
      value = arithmetic(run_, e.operators[i], value, right);
    }
    return value;
  }

  Value evaluate_compare(const Expression& e) {
    Value left = operand(e, 0);
    for (std::size_t i = 0; i < e.operators.size(); ++i) {
      Value right = operand(e, i + 1);
      if (!compare(run_, e.operators[i], left, right)) return {false};
      left = std::move(right);
    }
    return {true};
  }

  Arguments evaluate_arguments(const Expression& e) {
    Arguments arguments;
    for (std::size_t i = 1; i < e.operands.size(); ++i) {
      arguments.positional.push_back(operand(e, i));
    }
    for (const auto& [name, value] : e.named) arguments.named.emplace_back(name, evaluate(*value));
    return arguments;
  }

  Value evaluate_call(const Expression& e) {
    const Value callee = operand(e, 0);
    const Arguments arguments = evaluate_arguments(e);
    if (run_.failed()) return {};
    run_.set_line(e.line);
    if (const Undefined* undefined = callee.as<Undefined>()) return run_.fail(undefined->message);
    const Function* function = callee.as<Function>();
    if (function == nullptr) {
      return run_.fail(std::string("'") + type_name(callee) + "' object is not callable");
    }
    if (function->macro != nullptr) return call_macro(*function->macro, arguments);
    return call_function(run_, *function, arguments);
  }

  Value call_macro(const Statement& macro, const Arguments& arguments) {
    if (arguments.positional.size() > macro.names.size()) {
      return run_.fail("macro " + macro.text + " takes at most " +
                       std::to_string(macro.names.size()) + " arguments");
    }
    Frame frame;
    for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
      frame[macro.names[i]] = arguments.positional[i];
    }
    for (const auto& [name, value] : arguments.named) {
      const auto parameter = std::find(macro.names.begin(), macro.names.end(), name);
      if (parameter == macro.names.end() || frame.contains(*parameter)) {
        return run_.fail("macro " + macro.text + " does not take an argument '" + name + "'");
      }
      frame[*parameter] = value;
    }
    frames_.push_back(std::move(frame));
    const std::size_t base_outside = std::exchange(frame_base_, frames_.size() - 1);
    for (std::size_t i = 0; i < macro.names.size(); ++i) {
      if (frames_.back().contains(macro.names[i])) continue;
      const Expression* value = macro.expressions[i].get();
      frames_.back()[macro.names[i]] =
          value != nullptr ? evaluate(*value)
                           : Value{Undefined{"parameter '" + macro.names[i] + "' was not given"}};
    }
    const std::string text = capture(macro.bodies[0]);
    frame_base_ = base_outside;
    frames_.pop_back();
    return run_.text(text);
  }

  Execution& run_;
  int depth_max_;
  int depth_ = 0;
  std::vector<Frame> frames_;   // the first holds the variables and the outermost names
  std::size_t frame_base_ = 0;  // of the running macro
  std::string* output_ = nullptr;
};

}  // namespace

Result<std::string> run_template(const Body& body, const TemplateValue& variables,
                                 const TemplateBudget& budget) {
  const auto* entries = std::get_if<TemplateValue::Object>(&variables.value);
  if (entries == nullptr) return invalid_argument("chat template: the variables must be an object");
  Execution run(budget);
  Interpreter interpreter(run, budget);
  for (const auto& [name, value] : *entries) interpreter.define(name, run.import(value));
  std::string output = interpreter.render(body);
  if (run.failed()) return run.error();
  return output;
}

}  // namespace engramd::engine::jinja
