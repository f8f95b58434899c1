// Mistakes of an input, for people.
#include "cli/render/render.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// The marked line, cut to a window around the mark when it is long.
struct Excerpt {
  std::string text;
  i64 mark_begin;
  i64 mark_width;
};

Excerpt excerpt_of(const Place& place) {
  constexpr i64 kBefore = 40, kAfter = 60;
  std::string line;
  // Tabs become blanks so that the marker below stands under its value.
  for (char c : place.text) line += c == '\t' ? ' ' : c;
  if (line.ends_with('\r')) line.pop_back();

  i64 column = 1;
  std::string window;
  i64 mark_begin = 0, mark_width = 0;
  const i64 first = max_of(1, place.column - kBefore);
  const i64 last = place.column + kAfter;
  for (std::size_t i = 0; i < line.size(); ++column) {
    std::size_t length = 1;
    while (i + length < line.size() && (static_cast<unsigned char>(line[i + length]) & 0xC0) == 0x80)
      ++length;
    if (column >= first && column <= last) {
      const std::string shown = printable(std::string_view(line).substr(i, length));
      if (column < place.column) mark_begin += display_width(shown);
      if (column >= place.column && column < place.column + place.width) mark_width += display_width(shown);
      window += shown;
    }
    i += length;
  }
  if (first > 1) {
    window = "…" + window;
    ++mark_begin;
  }
  if (last < column - 1) window += "…";
  return {window, mark_begin, max_of(1, mark_width)};
}

void append_problem(std::string& out, const Problem& problem) {
  const auto& [error, place] = problem;
  out += concat("error[", name_of(error.code), "]: ", printable(error.message), "\n");
  if (!place.source.empty()) {
    out += concat("  --> ", printable(place.source));
    if (place.line > 0) out += concat(":", place.line, ":", place.column);
    if (!error.pointer.empty()) out += concat("   ", printable(shortened(error.pointer, 200)));
    out += "\n";
    if (place.line > 0 && !place.text.empty()) {
      const Excerpt excerpt = excerpt_of(place);
      const std::string number = std::to_string(place.line);
      out += concat("   ", number, " | ", excerpt.text, "\n");
      out += concat("   ", std::string(number.size(), ' '), " | ",
                    std::string(static_cast<std::size_t>(excerpt.mark_begin), ' '),
                    std::string(static_cast<std::size_t>(excerpt.mark_width), '^'), "\n");
    }
  }
  if (!error.help.empty()) out += concat("  help: ", printable(error.help), "\n");
}

}  // namespace

std::string render_problems(std::span<const Problem> problems) {
  std::string out;
  for (std::size_t i = 0; i < problems.size(); ++i) {
    if (i > 0) out += "\n";
    append_problem(out, problems[i]);
  }
  // A line is shown character by character, which hides this command of workflow runners from printable().
  for (std::size_t at = 0; (at = out.find("##[", at)) != std::string::npos;) out.replace(at, 1, "\\x23");
  if (problems.size() >= kMaxProblems)
    out += concat("\nonly the first ", kMaxProblems, " mistakes of an input are shown\n");
  return out;
}

}  // namespace moeplan
