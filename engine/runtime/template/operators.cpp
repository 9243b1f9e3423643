#include "engine/runtime/template/operators.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "engine/runtime/template/methods.h"

namespace engramd::engine::jinja {
namespace {

Value overflow(Execution& run) {
  return run.fail("the result does not fit a 64-bit integer");
}

Value integer_power(Execution& run, std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return overflow(run);
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return overflow(run);
  }
  return {result};
}

Value integer_arithmetic(Execution& run, Operator operation, std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  switch (operation) {
    case Operator::kAdd:
      return __builtin_add_overflow(a, b, &result) ? overflow(run) : Value{result};
    case Operator::kSubtract:
      return __builtin_sub_overflow(a, b, &result) ? overflow(run) : Value{result};
    case Operator::kMultiply:
      return __builtin_mul_overflow(a, b, &result) ? overflow(run) : Value{result};
    case Operator::kPower:
      return integer_power(run, a, b);
    default:
      break;
  }
  // // and % round towards minus infinity; -1 apart, for the lowest integer has no opposite
  if (b == -1) {
    if (operation == Operator::kModulo) return {std::int64_t{0}};
    return __builtin_sub_overflow(std::int64_t{0}, a, &result) ? overflow(run) : Value{result};
  }
  const bool round_down = a % b != 0 && (a < 0) != (b < 0);
  if (operation == Operator::kFloorDivide) return {a / b - (round_down ? 1 : 0)};
  return {a % b + (round_down ? b : 0)};
}

Value float_arithmetic(Execution& run, Operator operation, double a, double b) {
  switch (operation) {
    case Operator::kAdd:
      return {a + b};
    case Operator::kSubtract:
      return {a - b};
    case Operator::kMultiply:
      return {a * b};
    case Operator::kDivide:
      return {a / b};
    case Operator::kFloorDivide:
      return {std::floor(a / b)};
    case Operator::kModulo: {
      const double rest = std::fmod(a, b);
      return {rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest};
    }
    default:
      break;
  }
  const double power = std::pow(a, b);
  return std::isfinite(power) ? Value{power} : run.fail("the power is not a finite number");
}

Value number_arithmetic(Execution& run, Operator operation, const Value& a, const Value& b) {
  const double x = *as_number(a), y = *as_number(b);
  const bool divides = operation == Operator::kDivide || operation == Operator::kFloorDivide ||
                       operation == Operator::kModulo;
  if (divides && y == 0) return run.fail("division by zero");
  const bool integers = as_integer(a) && as_integer(b);
  if (integers && operation != Operator::kDivide && (operation != Operator::kPower || y >= 0)) {
    return integer_arithmetic(run, operation, *as_integer(a), *as_integer(b));
  }
  return float_arithmetic(run, operation, x, y);
}

Value repeat(Execution& run, const Value& value, std::int64_t times) {
  const Text* text = value.as<Text>();
  const auto size = static_cast<std::int64_t>(text != nullptr ? (*text)->size()
                                                              : (*value.as<List>())->items.size());
  std::int64_t total = 0;
  times = size == 0 ? 0 : std::max<std::int64_t>(times, 0);
  if (__builtin_mul_overflow(size, times, &total)) return overflow(run);
  if (text != nullptr) {
    std::string repeated;
    if (!run.check_text_bytes(total)) return {};
    for (std::int64_t i = 0; i < times; ++i) repeated += **text;
    return run.text(std::move(repeated));
  }
  if (!run.charge(total)) return {};
  const std::vector<Value>& piece = (*value.as<List>())->items;
  std::vector<Value> repeated;
  for (std::int64_t i = 0; i < times; ++i) {
    repeated.insert(repeated.end(), piece.begin(), piece.end());
  }
  return run.list(std::move(repeated));
}

// Of a list or a text's characters: what an index or a bound counts.
std::int64_t normalise_bound(const Value& bound, std::int64_t length, std::int64_t low,
                             std::int64_t high, std::int64_t absent) {
  const auto given = as_integer(bound);
  if (!given) return absent;
  return std::clamp(*given < 0 ? *given + length : *given, low, high);
}

}  // namespace

Value arithmetic(Execution& run, Operator operation, const Value& a, const Value& b) {
  if (!run.charge(1)) return {};
  if (operation == Operator::kConcatenate) {
    std::string text = to_text(run, a);
    append_text(run, text, b);
    return run.text(std::move(text));
  }
  if (const Undefined* undefined = a.as<Undefined>()) return run.fail(undefined->message);
  if (const Undefined* undefined = b.as<Undefined>()) return run.fail(undefined->message);
  if (as_number(a) && as_number(b)) return number_arithmetic(run, operation, a, b);
  if (operation == Operator::kAdd && a.is<Text>() && b.is<Text>()) {
    std::string text;
    run.append(text, **a.as<Text>());
    run.append(text, **b.as<Text>());
    return run.text(std::move(text));
  }
  if (operation == Operator::kAdd && a.is<List>() && b.is<List>()) {
    std::vector<Value> items = (*a.as<List>())->items;
    const auto& more = (*b.as<List>())->items;
    items.insert(items.end(), more.begin(), more.end());
    return run.list(std::move(items));
  }
  if (operation == Operator::kMultiply) {
    const bool a_repeats = a.is<Text>() || a.is<List>(), b_repeats = b.is<Text>() || b.is<List>();
    if (a_repeats && as_integer(b)) return repeat(run, a, *as_integer(b));
    if (b_repeats && as_integer(a)) return repeat(run, b, *as_integer(a));
  }
  constexpr const char* kSpellings[] = {"+", "-", "*", "/", "//", "%", "**"};
  return run.fail(std::string("cannot compute ") + type_name(a) + " " +
                  kSpellings[static_cast<int>(operation)] + " " + type_name(b));
}

Value negate(Execution& run, const Value& value) {
  if (const double* number = value.as<double>()) return {-*number};
  return arithmetic(run, Operator::kSubtract, {std::int64_t{0}}, value);
}

bool compare(Execution& run, Operator comparison, const Value& a, const Value& b) {
  if (comparison == Operator::kEqual) return equal(run, a, b);
  if (comparison == Operator::kNotEqual) return !equal(run, a, b);
  if (comparison == Operator::kIn) return contains(run, b, a);
  if (comparison == Operator::kNotIn) return !contains(run, b, a);
  const auto decide = [comparison](const auto& x, const auto& y) {
    switch (comparison) {
      case Operator::kLess:
        return x < y;
      case Operator::kLessEqual:
        return x <= y;
      case Operator::kGreater:
        return x > y;
      default:
        return x >= y;
    }
  };
  if (!run.charge(1)) return false;
  const auto i = as_integer(a), j = as_integer(b);
  if (i && j) return decide(*i, *j);
  const auto x = as_number(a), y = as_number(b);
  if (x && y) return decide(*x, *y);
  const Text *s = a.as<Text>(), *t = b.as<Text>();
  if (s != nullptr && t != nullptr) return decide(**s, **t);  // UTF-8 sorts as its code points do
  const Undefined* undefined = a.is<Undefined>() ? a.as<Undefined>() : b.as<Undefined>();
  run.fail(undefined != nullptr
               ? undefined->message
               : std::string("cannot order ") + type_name(a) + " and " + type_name(b));
  return false;
}

bool contains(Execution& run, const Value& container, const Value& item) {
  if (const Text* text = container.as<Text>()) {
    const Text* part = item.as<Text>();
    if (part == nullptr) {
      run.fail(std::string("'in <string>' needs a string on its left, got ") + type_name(item));
      return false;
    }
    return run.charge_text(**text) && (*text)->find(**part) != std::string::npos;
  }
  if (const Object* object = container.as<Object>()) {
    const Text* key = item.as<Text>();
    return key != nullptr && run.charge_text(**key) &&
           run.charge(static_cast<std::int64_t>((*object)->entries.size()) / 16) &&
           (*object)->find(**key) != nullptr;
  }
  const List items = iterate(run, container);
  return std::any_of(items->items.begin(), items->items.end(),
                     [&](const Value& other) { return equal(run, item, other); });
}

Value attribute(Execution& run, const Value& object, std::string_view name) {
  if (!run.charge(1)) return {};
  if (const Undefined* undefined = object.as<Undefined>()) return run.fail(undefined->message);
  if (const auto method = find_method(object, name)) {
    return {Function{*method, std::make_shared<const Value>(object)}};
  }
  if (const Object* entries = object.as<Object>()) {
    if (!run.charge(static_cast<std::int64_t>((*entries)->entries.size()) / 16)) return {};
    if (const Value* found = (*entries)->find(name)) return *found;
  } else if (const Namespace* space = object.as<Namespace>()) {
    const auto found = (*space)->entries.find(std::string(name));
    if (found != (*space)->entries.end()) return found->second;
  } else if (const Loop* loop = object.as<Loop>()) {
    if (const auto found = loop_attribute(**loop, name)) return *found;
  }
  return {Undefined{std::string("'") + type_name(object) + "' object has no attribute '" +
                    std::string(name.substr(0, 100)) + "'"}};
}

Value subscript(Execution& run, const Value& object, const Value& key) {
  if (!run.charge(1)) return {};
  if (const Undefined* undefined = object.as<Undefined>()) return run.fail(undefined->message);
  if (const Undefined* undefined = key.as<Undefined>()) return run.fail(undefined->message);
  if (const Text* name = key.as<Text>()) {
    const Object* entries = object.as<Object>();
    if (entries != nullptr) {
      if (!run.charge(static_cast<std::int64_t>((*entries)->entries.size()) / 16)) return {};
      if (const Value* found = (*entries)->find(**name)) return *found;
    }
    return attribute(run, object, **name);
  }
  const auto index = as_integer(key);
  const auto missing = [&] {
    return Value{Undefined{std::string("'") + type_name(object) + "' object has no element " +
                           (index ? std::to_string(*index) : std::string("of that kind"))}};
  };
  if (!index || !(object.is<List>() || object.is<Text>())) return missing();
  const Text* text = object.as<Text>();
  if (text != nullptr && !run.charge_text(**text)) return {};
  const std::int64_t length = text != nullptr
                                  ? character_count(**text)
                                  : static_cast<std::int64_t>((*object.as<List>())->items.size());
  const std::int64_t position = *index < 0 ? *index + length : *index;
  if (position < 0 || position >= length) return missing();
  if (text == nullptr) return (*object.as<List>())->items[static_cast<std::size_t>(position)];
  std::size_t byte = 0;
  for (std::int64_t i = 0; i < position; ++i) byte += character_bytes(**text, byte);
  return run.text((*text)->substr(byte, character_bytes(**text, byte)));
}

Value slice(Execution& run, const Value& object, const Value& start, const Value& stop,
            const Value& step) {
  for (const Value* bound : {&start, &stop, &step}) {
    if (bound->is<None>() || as_integer(*bound)) continue;
    return run.fail(std::string("slice bounds must be integers or none, got ") + type_name(*bound));
  }
  if (const Undefined* undefined = object.as<Undefined>()) return run.fail(undefined->message);
  if (!object.is<List>() && !object.is<Text>()) {
    return run.fail(std::string("cannot slice ") + type_name(object));
  }
  const List all = iterate(run, object);
  if (run.failed()) return {};
  const auto length = static_cast<std::int64_t>(all->items.size());
  const std::int64_t stride = as_integer(step).value_or(1);
  if (stride == 0) return run.fail("slice step cannot be zero");
  const bool forward = stride > 0;
  const std::int64_t low = forward ? 0 : -1, high = forward ? length : length - 1;
  std::int64_t i = normalise_bound(start, length, low, high, forward ? low : high);
  const std::int64_t end = normalise_bound(stop, length, low, high, forward ? high : low);
  std::vector<Value> items;
  while (forward ? i < end : i > end) {
    items.push_back(all->items[static_cast<std::size_t>(i)]);
    if (__builtin_add_overflow(i, stride, &i)) break;
  }
  if (object.is<List>()) return run.list(std::move(items));
  std::string text;
  for (const Value& character : items) text += **character.as<Text>();
  return run.text(std::move(text));
}

}  // namespace engramd::engine::jinja
