// A chart as SVG.
#pragma once

#include <string>
#include <vector>

#include "planner/core/report.hpp"

namespace moeplan {

// A drawing that stands in a page or in a picture of its own: 390 units wide, so that its text is as large on
// a phone as elsewhere.
struct Drawing {
  std::string body;
  i64 height = 0;
};
constexpr i64 kDrawingWidth = 390;

// The curves with their numbers, then the stacks. `with_numbers`: every value of a curve as text too.
Drawing draw_chart(const Chart& chart, bool with_numbers);

// Colours and fonts of drawings, for light and dark.
std::string drawing_style();

// The text in lines of at most `width` characters, broken between words where it can be.
std::vector<std::string> wrapped(std::string_view text, i64 width);

}  // namespace moeplan
