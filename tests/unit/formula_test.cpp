// Formulas as data, and the evaluator that judges them.
#include "planner/core/formula.hpp"
#include "tests/catch.hpp"
#include "tests/formula_evaluator.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

Symbols some_symbols() {
  Symbols symbols;
  add_input(symbols, "c1", 1024, "");
  add_input(symbols, "sms", 188, "");
  add_input(symbols, "b", 64, "");
  define(symbols, "slots", "40000+b*11", "");
  return symbols;
}

}  // namespace

TEST_CASE("a formula is written out with the values of its parts") {
  const Evaluated scratch = evaluate("min(c1*slots, sms*4*b*256)", some_symbols());
  CHECK(scratch.value == 12'320'768);
  CHECK(scratch.substituted ==
        "min(1,024 x 40,704 = 41,680,896, 188 x 4 x 64 x 256 = 12,320,768) = 12,320,768");
  CHECK(scratch.decided_by == "sms*4*b*256");
}

TEST_CASE("a single number is not repeated as its own value") {
  CHECK(evaluate("slots", some_symbols()).substituted == "40,704");
  CHECK(evaluate("(slots-704)/b", some_symbols()).substituted == "(40,704 - 704) / 64 = 625");
}

TEST_CASE("all functions of formulas") {
  const Symbols symbols = some_symbols();
  const std::pair<const char*, i64> cases[] = {
      {"cd(7,2)", 4},  {"cd(8,2)", 4},  {"up(65,64)", 128}, {"up(64,64)", 64},
      {"P(5)", 8},     {"P(8)", 8},     {"max(1,2,3)", 3},  {"min(3,2,1)", 1},
      {"2+3*4-1", 13}, {"(2+3)*4", 20}, {"7/2*2", 6},       {"max(b,cd(c1,b))*2", 128},
      {"10-2-3", 5},
  };
  for (const auto& [text, value] : cases) {
    INFO(text);
    CHECK(evaluate(text, symbols).value == value);
    CHECK(FormulaEvaluator::evaluate(text, {{"b", 64}, {"c1", 1024}}) == value);
    CHECK(FormulaEvaluator::evaluate_printed(evaluate(text, symbols).substituted) == value);
  }
}

TEST_CASE("of equal bounds a min names the last and a max the first") {
  const Symbols symbols = some_symbols();
  CHECK(evaluate("min(c1, 16*b)", symbols).decided_by == "16*b");
  CHECK(evaluate("max(c1, 16*b)", symbols).decided_by == "c1");
  CHECK(evaluate("2*min(c1, b)", symbols).decided_by == "b");
  CHECK(evaluate("max(min(c1,b), 65)", symbols).decided_by == "65");
  CHECK(evaluate("c1+b", symbols).decided_by.empty());
}

TEST_CASE("a formula needs the symbols of its symbols, and no others") {
  const Symbols needed = needed_symbols("slots*2", some_symbols());
  REQUIRE(needed.size() == 2);
  CHECK(needed[0].name == "b");
  CHECK(needed[1].name == "slots");
}

TEST_CASE("the judge of printed formulas sees a wrong value, a wrong symbol and a wrong form") {
  CHECK(FormulaEvaluator::evaluate_printed("min(2 x 3 = 6, 7) = 6") == 6);
  CHECK_FALSE(FormulaEvaluator::evaluate_printed("min(2 x 3 = 7, 7) = 7"));
  CHECK_FALSE(FormulaEvaluator::evaluate_printed("min(2 x 3 = 6, 7) = 7"));
  CHECK_FALSE(FormulaEvaluator::evaluate_printed("min(2 x 3 = 6, 7"));
  CHECK_FALSE(FormulaEvaluator::evaluate("a*b", {{"a", 2}}));
  CHECK_FALSE(FormulaEvaluator::evaluate("floor(3)", {}));
  CHECK_FALSE(FormulaEvaluator::evaluate("2 3", {}));
}
