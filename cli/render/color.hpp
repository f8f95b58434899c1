// Colour on a terminal: when it is wanted, and the few that tables use.
#pragma once

#include <string>
#include <string_view>

namespace moeplan {

// What decides; null where a variable is not set.
struct ColorEnvironment {
  const char* no_color = nullptr;        // NO_COLOR: any text turns colour off
  const char* clicolor = nullptr;        // CLICOLOR: 0 turns it off
  const char* clicolor_force = nullptr;  // CLICOLOR_FORCE: any text but 0 turns it on, terminal or not
  const char* term = nullptr;            // TERM: dumb turns it off
  bool is_terminal = false;
};

bool wants_color(const ColorEnvironment& environment);

enum class Color { bold, red, yellow, cyan };

// The text in a colour, or as it is where none is wanted.
std::string colored(std::string_view text, Color color, bool wanted);

}  // namespace moeplan
