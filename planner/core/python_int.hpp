// Integers as Python's int(text) reads them: engines parse their environment variables with it.
#pragma once

#include <optional>
#include <string_view>

#include "planner/core/integer.hpp"

namespace moeplan {

// Values beyond this are saturated at it: Python's integers have no end.
constexpr i64 kPythonIntLimit = i64{1} << 62;

// int(text): white space around, one leading sign, decimal digits, single underscores between digits.
// None where Python raises ValueError. Digits of other scripts, which Python takes, are not read.
std::optional<i64> parse_python_int(std::string_view text);

// The white space that Python's str.strip() removes, as far as it is ASCII.
std::string_view strip_python_space(std::string_view text);

}  // namespace moeplan
