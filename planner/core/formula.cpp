#include "planner/core/formula.hpp"

#include <algorithm>

#include "planner/core/check.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_name(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// A part of an expression: its value, and its text with values in place of symbols.
struct Term {
  i64 value;
  std::string text;
  bool is_composite = false;  // more than one number
};

std::string with_value(const Term& term) {
  return term.is_composite ? concat(term.text, " = ", grouped(term.value)) : term.text;
}

i64 multiplied(i64 a, i64 b) {
  i64 product = 0;
  MOEPLAN_CHECK(!__builtin_mul_overflow(a, b, &product), "a formula leaves 63 bits");
  return product;
}

i64 added(i64 a, i64 b) {
  i64 sum = 0;
  MOEPLAN_CHECK(!__builtin_add_overflow(a, b, &sum), "a formula leaves 63 bits");
  return sum;
}

i64 called(std::string_view function, const std::vector<Term>& arguments) {
  MOEPLAN_CHECK(!arguments.empty(), "a call without arguments");
  i64 value = arguments[0].value;
  if (function == "min" || function == "max") {
    for (const Term& argument : arguments)
      value = function == "min" ? min_of(value, argument.value) : max_of(value, argument.value);
    return value;
  }
  if (function == "P") {
    MOEPLAN_CHECK(arguments.size() == 1, "P takes one argument");
    return pow2_ceil(value);
  }
  MOEPLAN_CHECK(arguments.size() == 2 && arguments[1].value > 0, "cd and up take a positive divisor");
  if (function == "cd") return ceil_div(value, arguments[1].value);
  MOEPLAN_CHECK(function == "up", "a function that formulas do not have");
  return align_up(value, arguments[1].value);
}

// Recursive descent: sum, product, atom.
class Parser {
 public:
  Parser(std::string_view expression, const Symbols& symbols) : text_(expression), symbols_(symbols) {}

  Evaluated all() {
    const Term term = sum();
    MOEPLAN_CHECK(peek() == '\0', "a formula with something behind its end");
    return {term.value, with_value(term), std::move(decided_by_)};
  }

 private:
  char peek() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }

  Term sum() {
    Term left = product();
    for (;;) {
      if (take('+')) {
        const Term right = product();
        left = {added(left.value, right.value), concat(left.text, " + ", right.text), true};
      } else if (take('-')) {
        const Term right = product();
        left = {left.value - right.value, concat(left.text, " - ", right.text), true};
      } else {
        return left;
      }
    }
  }

  Term product() {
    Term left = atom();
    for (;;) {
      if (take('*')) {
        const Term right = atom();
        left = {multiplied(left.value, right.value), concat(left.text, " x ", right.text), true};
      } else if (take('/')) {
        const Term right = atom();
        MOEPLAN_CHECK(right.value > 0, "a formula divides by nothing");
        left = {left.value / right.value, concat(left.text, " / ", right.text), true};
      } else {
        return left;
      }
    }
  }

  Term atom() {
    if (take('(')) {
      Term inner = sum();
      MOEPLAN_CHECK(take(')'), "a formula without its closing parenthesis");
      inner.text = concat("(", inner.text, ")");
      return inner;
    }
    const bool is_number = is_digit(peek());
    const std::size_t start = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    const std::string_view word = text_.substr(start, at_ - start);
    MOEPLAN_CHECK(!word.empty(), "a formula with a hole");
    if (is_number) {
      i64 value = 0;
      for (char c : word) {
        MOEPLAN_CHECK(is_digit(c), "a number with letters in a formula");
        value = added(multiplied(value, 10), c - '0');
      }
      return {value, grouped(value)};
    }
    if (take('(')) return call(word);
    const Symbol* symbol = find_symbol(symbols_, word);
    MOEPLAN_CHECK(symbol, "a formula names a symbol that its plan does not have");
    return {symbol->value, grouped(symbol->value)};
  }

  Term call(std::string_view function) {
    const bool is_outermost = depth_++ == 0 && decided_by_.empty();
    std::vector<Term> arguments;
    std::vector<std::string_view> sources;
    do {
      peek();
      const std::size_t start = at_;
      arguments.push_back(sum());
      sources.push_back(text_.substr(start, at_ - start));
    } while (take(','));
    MOEPLAN_CHECK(take(')'), "a call without its closing parenthesis");
    --depth_;
    const i64 value = called(function, arguments);
    std::vector<std::string> texts;
    for (const Term& argument : arguments) texts.push_back(with_value(argument));
    if (is_outermost && (function == "min" || function == "max")) {
      // Equal bounds: the cap of a min holds, the first of a max came first.
      for (std::size_t i = 0; i < arguments.size(); ++i) {
        if (arguments[i].value != value) continue;
        if (function == "min" || decided_by_.empty()) decided_by_ = sources[i];
      }
    }
    return {value, concat(function, "(", join(texts, ", "), ")"), true};
  }

  std::string_view text_;
  const Symbols& symbols_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::string decided_by_;
};

// The words of an expression that are no functions.
std::vector<std::string_view> names_of(std::string_view expression) {
  std::vector<std::string_view> names;
  for (std::size_t at = 0; at < expression.size();) {
    if (!is_name(expression[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < expression.size() && is_name(expression[end])) ++end;
    if (!is_digit(expression[at]) && (end == expression.size() || expression[end] != '('))
      names.push_back(expression.substr(at, end - at));
    at = end;
  }
  return names;
}

}  // namespace

void add_input(Symbols& symbols, std::string_view name, i64 value, std::string meaning) {
  symbols.push_back({std::string(name), "", value, std::move(meaning)});
}

void define(Symbols& symbols, std::string_view name, std::string expression, std::string meaning) {
  const i64 value = evaluate(expression, symbols).value;
  symbols.push_back({std::string(name), std::move(expression), value, std::move(meaning)});
}

const Symbol* find_symbol(const Symbols& symbols, std::string_view name) {
  const auto at = std::ranges::find(symbols, name, &Symbol::name);
  return at == symbols.end() ? nullptr : &*at;
}

Evaluated evaluate(std::string_view expression, const Symbols& symbols) {
  return Parser(expression, symbols).all();
}

std::string_view element_formula(const Symbols& symbols, std::string_view tensor, std::string_view formula) {
  const Symbol* own = find_symbol(symbols, tensor);
  return own ? std::string_view(own->expression) : formula;
}

Symbols needed_symbols(std::string_view expression, const Symbols& symbols) {
  std::vector<std::string_view> open = names_of(expression);
  std::vector<bool> needed(symbols.size());
  while (!open.empty()) {
    const std::string_view name = open.back();
    open.pop_back();
    const auto at = std::ranges::find(symbols, name, &Symbol::name);
    MOEPLAN_CHECK(at != symbols.end(), "a formula names a symbol that its plan does not have");
    const auto index = static_cast<std::size_t>(at - symbols.begin());
    if (needed[index]) continue;
    needed[index] = true;
    for (std::string_view next : names_of(at->expression)) open.push_back(next);
  }
  Symbols found;
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    if (needed[i]) found.push_back(symbols[i]);
  }
  return found;
}

}  // namespace moeplan
