#include "cli/render/chart_svg.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "cli/render/markup.hpp"
#include "cli/render/scale.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr i64 kSide = 8;
constexpr i64 kLeft = 72;  // of the plane: labels of the scale stand beside it
constexpr i64 kRight = kDrawingWidth - 12;
constexpr i64 kPlaneHeight = 170;
constexpr i64 kLine = 17;
// Widest advance of a character at 12 units, rounded up.
constexpr i64 kCharacter = 7;
constexpr i64 kColours = 8;
constexpr std::string_view kDashes[] = {"", "6 3", "2 3", "8 3 2 3"};

std::string text(i64 x, i64 y, std::string_view anchor, std::string_view content,
                 std::string_view kind = "") {
  return concat("<text x=\"", x, "\" y=\"", y, "\"",
                anchor.empty() ? "" : concat(" text-anchor=\"", anchor, "\""),
                kind.empty() ? "" : concat(" class=\"", kind, "\""), ">", markup(content), "</text>\n");
}

std::string colour(std::size_t index) { return concat("c", static_cast<i64>(index) % kColours); }

// At most as many characters as fit `units`.
std::string fitting(std::string_view content, i64 units) {
  const i64 most = units / kCharacter;
  if (most < 1) return "";
  std::string out(content);
  for (i64 limit = most; display_width(out) > most; --limit)
    out = shortened(content, static_cast<std::size_t>(limit));
  return out;
}

// A round value of the scale, and how far up it is.
struct Tick {
  i64 height;
  std::string label;
};

// Where the points and values of a chart lie in its plane.
class Plane {
 public:
  virtual ~Plane() = default;
  virtual i64 x(std::size_t point) const = 0;
  virtual i64 height(i64 value) const = 0;
  virtual std::vector<Tick> ticks() const = 0;          // the lowest first
  virtual std::string value_text(i64 value) const = 0;  // as a mark says it
  virtual std::string spacing() const = 0;
};

// Points evenly spaced, bytes from zero.
class EvenPlane final : public Plane {
 public:
  explicit EvenPlane(const Chart& chart)
      : count_(static_cast<i64>(chart.points.size())), scale_(scale_for(largest_value(chart.series))) {}

  i64 x(std::size_t point) const override {
    return kLeft + (2 * static_cast<i64>(point) + 1) * (kRight - kLeft) / (2 * count_);
  }
  i64 height(i64 value) const override { return scale_.position(value, kPlaneHeight); }
  std::vector<Tick> ticks() const override {
    std::vector<Tick> ticks;
    for (i64 step = 0; step <= scale_.steps; ++step)
      ticks.push_back({height(step * scale_.step), step == 0 ? "0" : scale_.label(step * scale_.step)});
    return ticks;
  }
  std::string value_text(i64 value) const override { return concat(grouped(value), " B"); }
  std::string spacing() const override { return "evenly spaced"; }

 private:
  i64 count_;
  Scale scale_;
};

std::string microseconds_text(i64 nanoseconds) {
  const i64 tenths = (nanoseconds + 50) / 100;
  return concat(grouped(tenths / 10), ".", tenths % 10, " us");
}

// Both logarithmic: places, and nanoseconds over whole decades.
class LogPlane final : public Plane {
 public:
  explicit LogPlane(const Chart& chart) : places_(chart.places) {
    i64 least = largest_value(chart.series);
    for (const ChartSeries& series : chart.series)
      for (const auto& value : series.values) least = min_of(least, value.value_or(least));
    while (low_ * 10 <= max_of(least, 1)) low_ *= 10;
    high_ = 10 * low_;
    while (high_ < largest_value(chart.series)) high_ *= 10;
  }

  i64 x(std::size_t point) const override {
    constexpr i64 kMargin = 14;  // of marks at the ends
    const i64 first = *std::ranges::min_element(places_), last = *std::ranges::max_element(places_);
    return kLeft + kMargin + along(places_[point], first, last, kRight - kLeft - 2 * kMargin);
  }
  i64 height(i64 value) const override { return along(value, low_, high_, kPlaneHeight); }
  std::vector<Tick> ticks() const override {
    std::vector<Tick> ticks;
    for (i64 value = low_;; value *= 10) {
      ticks.push_back(
          {height(value), value < 1000 ? concat(value, " ns") : concat(grouped(value / 1000), " us")});
      if (value == high_) return ticks;
    }
  }
  std::string value_text(i64 value) const override { return microseconds_text(value); }
  std::string spacing() const override { return "logarithmic, as the times are"; }

 private:
  // How far `value` is between the logarithms of two others, in `length` units.
  static i64 along(i64 value, i64 from, i64 to, i64 length) {
    if (from == to) return length / 2;
    const double whole = std::log(static_cast<double>(to) / static_cast<double>(from));
    return std::llround(std::log(static_cast<double>(value) / static_cast<double>(from)) / whole *
                        static_cast<double>(length));
  }

  std::vector<i64> places_;
  i64 low_ = 1, high_ = 10;
};

std::unique_ptr<Plane> plane_of(const Chart& chart) {
  if (chart.places.empty()) return std::make_unique<EvenPlane>(chart);
  return std::make_unique<LogPlane>(chart);
}

void draw_scale(Drawing& drawing, const Plane& plane, i64 top) {
  bool is_lowest = true;
  for (const Tick& tick : plane.ticks()) {
    const i64 y = top + kPlaneHeight - tick.height;
    drawing.body += concat("<path class=\"", is_lowest ? "axis" : "grid", "\" d=\"M", kLeft, " ", y, "H",
                           kRight, "\"/>\n");
    drawing.body += text(kLeft - 6, y + 4, "end", tick.label, "faint");
    is_lowest = false;
  }
}

// Labels under the plane: as many as stand apart.
void draw_labels(Drawing& drawing, const Chart& chart, const Plane& plane, i64 y) {
  i64 used = 0;
  for (std::size_t i = 0; i < chart.points.size(); ++i) {
    const std::string label = fitting(chart.points[i], kRight - kLeft);
    const i64 width = display_width(label) * kCharacter;
    const i64 x = max_of(min_of(plane.x(i), kDrawingWidth - 4 - width / 2), width / 2 + 4);
    if (x - width / 2 < used) continue;
    drawing.body += text(x, y, "middle", label);
    used = x + width / 2 + kCharacter;
  }
}

void draw_curve(Drawing& drawing, const Chart& chart, std::size_t index, const Plane& plane, i64 top) {
  const ChartSeries& curve = chart.series[index];
  const std::string_view dash = kDashes[index % std::size(kDashes)];
  std::string path, dots;
  bool is_open = false;
  for (std::size_t i = 0; i < chart.points.size(); ++i) {
    // A point without an answer leaves a gap.
    if (!curve.values[i]) {
      is_open = false;
      continue;
    }
    const i64 x = plane.x(i), y = top + kPlaneHeight - plane.height(*curve.values[i]);
    path += concat(is_open ? "L" : "M", x, " ", y);
    is_open = true;
    dots += concat("<circle class=\"f", colour(index), "\" cx=\"", x, "\" cy=\"", y, "\" r=\"",
                   chart.points.size() > 40 ? 1 : 3, "\"><title>", markup(chart.points[i]), ": ",
                   plane.value_text(*curve.values[i]), "</title></circle>\n");
  }
  drawing.body +=
      concat("<path class=\"line s", colour(index), "\"",
             dash.empty() ? "" : concat(" stroke-dasharray=\"", dash, "\""), " d=\"", path, "\"/>\n", dots);
}

void draw_heading(Drawing& drawing, std::string_view title) {
  for (const std::string& line : wrapped(title, (kDrawingWidth - 2 * kSide) / kCharacter)) {
    drawing.height += kLine;
    drawing.body += text(kSide, drawing.height, "", line, "strong");
  }
}

void draw_legend(Drawing& drawing, const std::vector<ChartSeries>& entries) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    drawing.height += kLine;
    drawing.body += concat("<rect class=\"f", colour(i), "\" x=\"", kSide, "\" y=\"", drawing.height - 10,
                           "\" width=\"11\" height=\"11\"/>\n");
    drawing.body +=
        text(kSide + 18, drawing.height, "", fitting(entries[i].name, kDrawingWidth - 2 * kSide - 18));
  }
}

std::string bytes_text(i64 bytes) { return concat(grouped(bytes), " B · ", mebibytes(bytes), " MiB"); }

// A label on the left and an amount on the right of one line; of two where they would meet.
void draw_amount(Drawing& drawing, std::string_view label, std::string_view amount) {
  constexpr i64 kRoom = kDrawingWidth - 2 * kSide;
  drawing.height += kLine;
  drawing.body += text(kSide, drawing.height, "", fitting(label, kRoom));
  if ((display_width(label) + 1 + display_width(amount)) * kCharacter > kRoom) drawing.height += kLine;
  drawing.body += text(kDrawingWidth - kSide, drawing.height, "end", amount, "number");
}

void draw_numbers(Drawing& drawing, const Chart& chart) {
  for (const ChartSeries& curve : chart.series) {
    drawing.height += kLine / 2;
    if (chart.series.size() > 1) draw_heading(drawing, curve.name);
    for (std::size_t i = 0; i < chart.points.size(); ++i)
      draw_amount(drawing, chart.points[i],
                  curve.values[i] ? (chart.places.empty() ? bytes_text : microseconds_text)(*curve.values[i])
                                  : std::string(chart.places.empty() ? "no plan" : "-"));
  }
}

void draw_stack(Drawing& drawing, const Chart& chart, std::size_t point, i64 most) {
  constexpr i64 kRoom = kDrawingWidth - 2 * kSide;
  i64 total = 0;
  for (const ChartSeries& part : chart.stacks) total += part.values[point].value_or(0);
  draw_amount(drawing, chart.stack_points[point], bytes_text(total));
  drawing.height += 5;
  const Scale scale{max_of(most, 1), 1};
  i64 below = 0;
  for (std::size_t s = 0; s < chart.stacks.size(); ++s) {
    const i64 bytes = chart.stacks[s].values[point].value_or(0);
    const i64 begin = scale.position(below, kRoom), end = scale.position(below + bytes, kRoom);
    below += bytes;
    if (bytes == 0) continue;
    drawing.body +=
        concat("<rect class=\"part f", colour(s), "\" x=\"", kSide + begin, "\" y=\"", drawing.height,
               "\" width=\"", end - begin, "\" height=\"14\"><title>", markup(chart.stack_points[point]),
               ", ", markup(chart.stacks[s].name), ": ", grouped(bytes), " B</title></rect>\n");
  }
  drawing.height += 16;
}

void draw_stacks(Drawing& drawing, const Chart& chart) {
  i64 most = 0;
  for (std::size_t p = 0; p < chart.stack_points.size(); ++p) {
    i64 total = 0;
    for (const ChartSeries& part : chart.stacks) total += part.values[p].value_or(0);
    most = max_of(most, total);
  }
  drawing.height += kLine / 2;
  draw_heading(drawing, "what the bytes are");
  draw_legend(drawing, chart.stacks);
  drawing.height += 4;
  for (std::size_t p = 0; p < chart.stack_points.size(); ++p) draw_stack(drawing, chart, p, most);
}

}  // namespace

std::vector<std::string> wrapped(std::string_view content, i64 width) {
  std::vector<std::string> lines(1);
  while (!content.empty()) {
    const std::size_t blank = content.find(' ');
    std::string word(content.substr(0, blank));
    content = blank == std::string_view::npos ? std::string_view() : content.substr(blank + 1);
    // A word that fits no line is broken anywhere.
    while (display_width(word) > width) {
      std::size_t cut = static_cast<std::size_t>(width);
      while (cut > 1 && (static_cast<unsigned char>(word[cut]) & 0xC0) == 0x80) --cut;
      if (!lines.back().empty()) lines.emplace_back();
      lines.back() = word.substr(0, cut);
      word.erase(0, cut);
    }
    if (!lines.back().empty() && display_width(lines.back()) + 1 + display_width(word) > width)
      lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
  }
  return lines;
}

std::string drawing_style() {
  return R"(svg.drawing{
--ink:#1b1f24;--faint:#59636e;--grid:#d8dee4;--paper:#ffffff;
--c0:#0b62a8;--c1:#c2410c;--c2:#15803d;--c3:#7e22ce;--c4:#a16207;--c5:#be123c;--c6:#0e7490;--c7:#6b7280;
font:12px system-ui,"Segoe UI",Roboto,Arial,sans-serif;background:var(--paper)}
@media(prefers-color-scheme:dark){svg.drawing{
--ink:#e6edf3;--faint:#9aa4af;--grid:#30363d;--paper:#0d1117;
--c0:#6cb6ff;--c1:#ff9e64;--c2:#7ee2a8;--c3:#d2a8ff;--c4:#e3c567;--c5:#ff8fa3;--c6:#5fd7e8;--c7:#8b949e}}
.drawing text{fill:var(--ink)}.drawing .faint{fill:var(--faint)}.drawing .strong{font-weight:600}
.drawing .number{font-variant-numeric:tabular-nums}
.drawing .mono{font-family:ui-monospace,"DejaVu Sans Mono",Menlo,Consolas,monospace;white-space:pre}
.drawing .axis{stroke:var(--ink)}.drawing .grid{stroke:var(--grid)}.drawing .line{fill:none;stroke-width:2}
.drawing .part{stroke:var(--paper)}
.sc0{stroke:var(--c0)}.sc1{stroke:var(--c1)}.sc2{stroke:var(--c2)}.sc3{stroke:var(--c3)}
.sc4{stroke:var(--c4)}.sc5{stroke:var(--c5)}.sc6{stroke:var(--c6)}.sc7{stroke:var(--c7)}
.fc0{fill:var(--c0)}.fc1{fill:var(--c1)}.fc2{fill:var(--c2)}.fc3{fill:var(--c3)}
.fc4{fill:var(--c4)}.fc5{fill:var(--c5)}.fc6{fill:var(--c6)}.fc7{fill:var(--c7)}
)";
}

Drawing draw_chart(const Chart& chart, bool with_numbers) {
  Drawing drawing;
  draw_heading(drawing, chart.title);
  const i64 top = drawing.height + 14;
  const std::unique_ptr<Plane> plane = plane_of(chart);
  draw_scale(drawing, *plane, top);
  for (std::size_t i = chart.series.size(); i-- > 0;) draw_curve(drawing, chart, i, *plane, top);
  draw_labels(drawing, chart, *plane, top + kPlaneHeight + kLine);
  drawing.height = top + kPlaneHeight + 2 * kLine;
  drawing.body += text((kLeft + kRight) / 2, drawing.height, "middle",
                       fitting(concat(chart.axis, ", ", plane->spacing()), kRight - kLeft), "faint");
  if (chart.series.size() > 1) draw_legend(drawing, chart.series);
  if (with_numbers) draw_numbers(drawing, chart);
  if (!chart.stacks.empty()) draw_stacks(drawing, chart);
  drawing.height += kSide;
  return drawing;
}

}  // namespace moeplan
