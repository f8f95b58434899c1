#include "cli/render/plot.hpp"

#include "cli/render/scale.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr i64 kHeight = 16;  // rows of the plane
constexpr std::string_view kGlyphs[] = {"●", "○", "■", "□", "▲", "△", "◆", "◇"};
constexpr std::string_view kAsciiGlyphs[] = {"*", "o", "#", "x", "+", "@", "%", "&"};

// What the axes are drawn with.
struct Strokes {
  std::string_view up, tick, corner, across;
};
constexpr Strokes kBox = {"│", "┤", "└", "─"};
constexpr Strokes kAscii = {"|", "+", "+", "-"};

std::string blanks(i64 count) { return std::string(static_cast<std::size_t>(max_of(count, 0)), ' '); }

std::string repeated(std::string_view piece, i64 count) {
  std::string out;
  for (i64 i = 0; i < count; ++i) out += piece;
  return out;
}

// The plane's cells: which curve stands there; -1 none.
struct Plane {
  i64 width;
  std::vector<int> cells;
  int& at(i64 row, i64 column) { return cells[static_cast<std::size_t>(row * width + column)]; }
};

// The middle of point `i` of `count`.
i64 column_of(std::size_t i, std::size_t count, i64 width) {
  return (2 * static_cast<i64>(i) + 1) * width / (2 * static_cast<i64>(count));
}

// Labels under the axis: as many as stand apart.
std::string label_line(const Chart& chart, i64 width) {
  std::string line;
  i64 used = 0;
  for (std::size_t i = 0; i < chart.points.size(); ++i) {
    const std::string label = printable(chart.points[i]);
    const i64 length = display_width(label);
    const i64 begin =
        max_of(min_of(column_of(i, chart.points.size(), width) - length / 2, width - length), 0);
    if (begin < used + (used > 0 ? 2 : 0) || begin + length > width) continue;
    line += blanks(begin - used) + label;
    used = begin + length;
  }
  return line;
}

}  // namespace

std::string plot(const Chart& chart, const RenderOptions& options) {
  const auto& glyphs = options.ascii ? kAsciiGlyphs : kGlyphs;
  const Strokes& strokes = options.ascii ? kAscii : kBox;
  const Scale scale = scale_for(largest_value(chart.series));
  const i64 margin = display_width(scale.label(scale.top()));
  Plane plane{.width = max_of(options.width - margin - 2, 8), .cells = {}};
  plane.cells.assign(static_cast<std::size_t>(plane.width * kHeight), -1);
  // The first curve is drawn last, so that it stands on top where curves meet.
  for (std::size_t s = chart.series.size(); s-- > 0;) {
    for (std::size_t i = 0; i < chart.points.size(); ++i) {
      const auto& value = chart.series[s].values[i];
      if (!value) continue;
      const i64 row = kHeight - 1 - min_of(scale.position(*value, kHeight), kHeight - 1);
      plane.at(row, column_of(i, chart.points.size(), plane.width)) = static_cast<int>(s);
    }
  }
  std::string out = concat(printable(chart.title), "\n");
  for (i64 row = 0; row < kHeight; ++row) {
    // A step's label stands in the row where its value is drawn.
    std::string label;
    for (i64 step = 1; step <= scale.steps; ++step) {
      const i64 at = kHeight - 1 - min_of(scale.position(step * scale.step, kHeight), kHeight - 1);
      if (at == row) label = scale.label(step * scale.step);
    }
    std::string line = blanks(margin - display_width(label)) + label + " ";
    line += label.empty() ? strokes.up : strokes.tick;
    i64 pending = 0;
    for (i64 column = 0; column < plane.width; ++column) {
      const int curve = plane.at(row, column);
      if (curve < 0) {
        ++pending;
        continue;
      }
      line += blanks(pending);
      line += glyphs[static_cast<std::size_t>(curve) % std::size(glyphs)];
      pending = 0;
    }
    out += line + "\n";
  }
  out += blanks(margin - 3) + "0 B " + std::string(strokes.corner) + repeated(strokes.across, plane.width) +
         "\n";
  out += blanks(margin + 2) + label_line(chart, plane.width) + "\n";
  out += blanks(margin + 2) + printable(chart.axis) + "\n";
  if (chart.series.size() > 1) {
    for (std::size_t s = 0; s < chart.series.size(); ++s)
      out += concat(blanks(margin + 2), glyphs[s % std::size(glyphs)], " ", printable(chart.series[s].name),
                    "\n");
  }
  return out;
}

}  // namespace moeplan
