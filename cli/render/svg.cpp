// Reports as one picture: charts where there are any, else the tables as text.
#include <sstream>

#include "cli/render/chart_svg.hpp"
#include "cli/render/markup.hpp"
#include "cli/render/render.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr i64 kMonoCharacter = 8;  // advance of a monospaced character at 12 units, rounded up
constexpr i64 kLine = 17;

struct Picture {
  std::string body;
  i64 width = kDrawingWidth;
  i64 height = 0;
};

void add(Picture& picture, const Drawing& drawing) {
  picture.body += concat("<g transform=\"translate(0 ", picture.height, ")\">\n", drawing.body, "</g>\n");
  picture.height += drawing.height;
}

void add_lines(Picture& picture, const std::vector<std::string>& lines, std::string_view kind) {
  for (const std::string& line : lines) {
    picture.height += kLine;
    picture.body +=
        concat("<text x=\"8\" y=\"", picture.height, "\" class=\"", kind, "\">", markup(line), "</text>\n");
  }
}

// What people read on a terminal, in a picture.
void add_as_text(Picture& picture, const Report& report, const RenderOptions& options) {
  RenderOptions plain = options;
  plain.plots = plain.color = false;
  std::istringstream text(render_table({&report, 1}, {}, plain));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    picture.width = max_of(picture.width, display_width(line) * kMonoCharacter + 16);
    lines.push_back(std::move(line));
  }
  add_lines(picture, lines, "mono");
}

}  // namespace

std::string render_svg(std::span<const Report> reports, std::span<const Problem>,
                       const RenderOptions& options) {
  Picture picture;
  std::string title, description;
  for (const Report& report : reports) {
    if (!title.empty()) title += "; ";
    title += report.verdict;
    if (report.chart) {
      add_lines(picture, wrapped(report.verdict, 52), "");
      picture.height += 8;
      add(picture, draw_chart(*report.chart, true));
      description += concat(report.chart->title, ". Every value stands below as text. ");
    } else {
      add_as_text(picture, report, options);
      description += "The report's tables as text. ";
    }
    picture.height += kLine;
  }
  // As wide as there is room for, up to twice its own size.
  return concat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"drawing\" role=\"img\" "
      "aria-labelledby=\"title description\" viewBox=\"0 0 ",
      picture.width, " ", picture.height, "\" width=\"", picture.width, "\" height=\"", picture.height,
      "\" style=\"width:100%;max-width:", picture.width * 2, "px;height:auto\">\n<title id=\"title\">",
      markup(title), "</title>\n<desc id=\"description\">", markup(description), "</desc>\n<style>\n",
      drawing_style(), "</style>\n", "<rect width=\"100%\" height=\"100%\" style=\"fill:var(--paper)\"/>\n",
      picture.body, "</svg>\n");
}

}  // namespace moeplan
