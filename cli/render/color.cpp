#include "cli/render/color.hpp"

#include "planner/core/text.hpp"

namespace moeplan {

bool wants_color(const ColorEnvironment& environment) {
  const auto is_set = [](const char* text) { return text && *text != '\0'; };
  const auto is = [](const char* text, std::string_view word) { return text && text == word; };
  if (is_set(environment.no_color)) return false;
  if (is_set(environment.clicolor_force) && !is(environment.clicolor_force, "0")) return true;
  if (is(environment.clicolor, "0") || is(environment.term, "dumb")) return false;
  return environment.is_terminal;
}

std::string colored(std::string_view text, Color color, bool wanted) {
  constexpr std::string_view kCodes[] = {"1", "1;31", "33", "36"};
  if (!wanted) return std::string(text);
  return concat("\x1b[", kCodes[static_cast<int>(color)], "m", text, "\x1b[0m");
}

}  // namespace moeplan
