// Formulas as data: integer expressions over named symbols, evaluated and written out with their values. What
// an explanation prints is what was computed.
//   expression: + - * / ( ), decimal numbers, symbols, and calls of
//   min max (any number of arguments), cd(a,b) = ceil(a/b), up(x,a) = x rounded up to a multiple of a,
//   P(t) = smallest power of two >= t. Division rounds down; every value is a non-negative integer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/core/integer.hpp"

namespace moeplan {

// One symbol with the value a plan gives it.
struct Symbol {
  std::string name;
  std::string expression;  // over symbols in front of it; empty for an input
  i64 value;
  std::string meaning;
};
using Symbols = std::vector<Symbol>;

void add_input(Symbols& symbols, std::string_view name, i64 value, std::string meaning);
// Its value follows from what is there already.
void define(Symbols& symbols, std::string_view name, std::string expression, std::string meaning);

// The symbol of that name, or null.
const Symbol* find_symbol(const Symbols& symbols, std::string_view name);

// An expression with its value, written out: "min(1,024 x 40,704 = 41,680,896, 12,320,768) = 12,320,768".
struct Evaluated {
  i64 value;
  std::string substituted;
  std::string decided_by;  // the argument that an outermost min or max took; "" without one
};
// A malformed expression, an unknown symbol or a product beyond 63 bits is a bug: our formulas are tables.
Evaluated evaluate(std::string_view expression, const Symbols& symbols);

// The expression of a tensor's elements: the plan's own where it has a symbol of that name, else `formula`.
std::string_view element_formula(const Symbols& symbols, std::string_view tensor, std::string_view formula);

// The symbols that an expression needs, through the expressions of those it names, in their order.
Symbols needed_symbols(std::string_view expression, const Symbols& symbols);

}  // namespace moeplan
