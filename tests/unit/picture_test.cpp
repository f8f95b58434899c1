// Charts on a terminal, as SVG and in a page.
#include <map>
#include <regex>
#include <sstream>

#include "cli/render/chart_svg.hpp"
#include "cli/render/markup.hpp"
#include "cli/render/plot.hpp"
#include "cli/render/render.hpp"
#include "cli/render/scale.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"
#include "tests/catch.hpp"

using namespace moeplan;

namespace {

constexpr i64 kMiB = i64{1} << 20;

Report sample() {
  Report report;
  report.verdict = "2 <points> & \"more\"";
  report.chart = Chart{.title = "bytes <by> capacity",
                       .axis = "capacity",
                       .points = {"512", "1,024", "<b>"},
                       .series = {{"block 8", {100 * kMiB, 200 * kMiB, 400 * kMiB}},
                                  {"block 64", {150 * kMiB, std::nullopt, 500 * kMiB}}},
                       .stack_points = {"512"},
                       .stacks = {{"a_tensor", {60 * kMiB}}, {"b & c", {40 * kMiB}}}};
  Table table;
  table.key = "points";
  table.columns = {{"capacity", "CAPACITY", ColumnKind::count},
                   {"bytes", "BYTES", ColumnKind::bytes},
                   {"secret", "SECRET", ColumnKind::text, Audience::programs},
                   {"remark", "", ColumnKind::text}};
  table.rows = {
      {{i64{512}, 100 * kMiB, std::string("hidden"), std::string("<script>alert(1)</script>")}, {}}};
  report.tables = {table};
  report.findings = {{"rule", "warning", "", "a 'finding'", "mend <it>"}};
  report.notes = {"a note"};
  return report;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Tags open and close in pairs, attributes are quoted, and no bare ampersand stands in the text.
void check_well_formed(const std::string& text) {
  static const std::regex kTag("<(/?)([a-zA-Z][a-zA-Z0-9]*)((?:\\s+[a-zA-Z:-]+=\"[^\"<]*\")*)\\s*(/?)>");
  std::vector<std::string> open;
  for (std::sregex_iterator it(text.begin(), text.end(), kTag), end; it != end; ++it) {
    const std::string name = (*it)[2];
    if (name == "meta" || name == "br" || (*it)[4].length() > 0) continue;
    if ((*it)[1].length() == 0) {
      open.push_back(name);
    } else {
      REQUIRE(!open.empty());
      CHECK(open.back() == name);
      open.pop_back();
    }
  }
  CHECK(open.empty());
  const std::string bare =
      std::regex_replace(std::regex_replace(text, kTag, ""), std::regex("<!doctype html>"), "");
  CHECK(!contains(bare, "<"));
  CHECK(!std::regex_search(bare, std::regex("&(?!(amp|lt|gt|quot|#39);)")));
}

}  // namespace

TEST_CASE("text for pages cannot open a tag, leave an attribute or steer a terminal") {
  CHECK(markup("<a href=\"x\" id='y'>&\x1b[2J") ==
        "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;\\x1b[2J");
  // XML 1.0 has no place for two code points.
  CHECK(markup("\xEF\xBF\xBE\xEF\xBF\xBF\xEF\xBF\xBD") == "\\xef\\xbf\\xbe\\xef\\xbf\\xbf\xEF\xBF\xBD");
}

TEST_CASE("scales have at most five round steps, none below the largest value, and short labels") {
  for (i64 largest = 0; largest >= 0 && largest < i64{1} << 62; largest = largest * 3 / 2 + 1) {
    const Scale scale = scale_for(largest);
    INFO(largest);
    CHECK(scale.steps <= 5);
    CHECK(scale.top() >= largest);
    CHECK(scale.top() - scale.step < max_of(largest, 1));
    CHECK(scale.label(scale.top()).size() <= 9);
    CHECK(scale.position(scale.top(), 100) == 100);
    CHECK(scale.position(0, 100) == 0);
  }
  CHECK(scale_for(1105369560).label(scale_for(1105369560).step) == "500 MiB");
}

TEST_CASE("a page escapes everything, loads nothing and runs nothing") {
  const Report reports[] = {sample()};
  const std::string page = render_html(reports, {}, {});
  check_well_formed(page.substr(page.find("<body>"), page.find("</html>") - page.find("<body>")));
  CHECK(contains(page, "2 &lt;points&gt; &amp; &quot;more&quot;"));
  CHECK(contains(page, "&lt;script&gt;alert(1)&lt;/script&gt;"));
  for (const char* absent :
       {"<script", "http://", "https://", "url(", "@import", "src=", "href=", "hidden\"", "SECRET"})
    CHECK(!contains(page, absent));
  for (const char* present :
       {"<th scope=\"col\"", "<th scope=\"row\"", "role=\"img\"", "aria-labelledby=\"chart0\"",
        "<title id=\"chart0\">", "prefers-color-scheme:dark", "lang=\"en\"", "<caption>points</caption>",
        "a note", "mend &lt;it&gt;", "default-src 'none'"})
    CHECK(contains(page, present));
}

TEST_CASE("a page names each report once, and quiet is the verdict alone") {
  const Report reports[] = {sample(), sample()};
  const std::string page = render_html(reports, {}, {});
  CHECK(contains(page, "id=\"chart1\""));
  CHECK(contains(page, "id=\"verdict1\""));
  CHECK(!contains(render_html(reports, {}, {.quiet = true}), "<table"));
  CHECK(contains(render_html({}, {}, {}), "</html>"));
}

TEST_CASE("a picture is one well-formed SVG with title, description and its numbers as text") {
  const Report reports[] = {sample()};
  const std::string svg = render_svg(reports, {}, {});
  check_well_formed(svg);
  CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  for (const char* present :
       {"role=\"img\"", "<title id=\"title\">2 &lt;points", "<desc id=\"description\">",
        ">104,857,600 B · 100.00 MiB</text>", ">524,288,000 B · 500.00 MiB</text>", ">no plan</text>",
        "a_tensor: 62,914,560 B", "b &amp; c: 41,943,040 B", "prefers-color-scheme:dark"})
    CHECK(contains(svg, present));
  for (const char* absent : {"<script", "href", "url(", "onload"}) CHECK(!contains(svg, absent));
}

TEST_CASE("a report without a chart is a picture of its tables") {
  Report report = sample();
  report.chart.reset();
  const std::string svg = render_svg({&report, 1}, {}, {});
  check_well_formed(svg);
  CHECK(contains(svg, "104,857,600"));
  CHECK(contains(svg, "CAPACITY"));
}

TEST_CASE("no text of a drawing leaves it, however long labels and values are") {
  Chart chart{.title = std::string(300, 'T'),
              .axis = std::string(200, 'a'),
              .points = {},
              .series = {{std::string(90, 's'), {}}},
              .stack_points = {std::string(80, 'p')},
              .stacks = {{std::string(90, 'n'), {i64{1} << 61}}}};
  for (int i = 0; i < 60; ++i) {
    chart.points.push_back(concat("label number ", i));
    chart.series[0].values.push_back((i64{1} << 61) - i);
  }
  const Drawing drawing = draw_chart(chart, true);
  static const std::regex kText(
      "<text x=\"(-?\\d+)\" y=\"(\\d+)\"(?: text-anchor=\"(\\w+)\")?[^>]*>([^<]*)</text>");
  std::map<i64, i64> right_ends;  // of the labels under the plane
  int texts = 0;
  for (std::sregex_iterator it(drawing.body.begin(), drawing.body.end(), kText), end; it != end;
       ++it, ++texts) {
    const i64 x = std::stoll((*it)[1]), y = std::stoll((*it)[2]),
              width = display_width(std::string((*it)[4])) * 7;
    const std::string anchor = (*it)[3];
    const i64 left = anchor == "end" ? x - width : anchor == "middle" ? x - width / 2 : x;
    INFO((*it)[0]);
    CHECK(left >= 0);
    CHECK(left + width <= kDrawingWidth);
    CHECK(y <= drawing.height);
    if (anchor != "middle") continue;
    CHECK(left >= right_ends[y]);
    right_ends[y] = left + width;
  }
  CHECK(texts > 70);
}

TEST_CASE("text is wrapped between words, and anywhere where a word is too long") {
  CHECK(wrapped("one two three", 7) == std::vector<std::string>{"one two", "three"});
  CHECK(wrapped("abcdefghij k", 4) == std::vector<std::string>{"abcd", "efgh", "ij k"});
  CHECK(wrapped("", 4) == std::vector<std::string>{""});
}

TEST_CASE("a terminal plot has axes, a glyph a curve and labels that do not touch") {
  const Report report = sample();
  const std::string text = plot(*report.chart, {.width = 60});
  CHECK(contains(text, "500 MiB ┤"));
  CHECK(contains(text, "└────"));
  CHECK(contains(text, "● block 8"));
  CHECK(contains(text, "○ block 64"));
  // Five values of six are known, and the legend has one glyph each.
  const auto count = [&](std::string_view glyph) {
    int found = 0;
    for (std::size_t at = 0; (at = text.find(glyph, at)) != std::string::npos; at += glyph.size()) ++found;
    return found;
  };
  CHECK(count("●") == 4);
  CHECK(count("○") == 3);
  CHECK(contains(text, "512"));
  CHECK(contains(text, "1,024"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(display_width(line) <= 60);
}

TEST_CASE("an ASCII plot has no glyphs beyond ASCII, and a table draws one when asked") {
  const Report report = sample();
  const std::string text = plot(*report.chart, {.width = 40, .ascii = true});
  CHECK(std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
  CHECK(contains(render_table({&report, 1}, {}, {.plots = true}), "└────"));
  CHECK(!contains(render_table({&report, 1}, {}, {}), "└────"));
}

TEST_CASE("a chart of nothing but zeros or of one point still draws") {
  Chart chart{.title = "t",
              .axis = "x",
              .points = {"1"},
              .series = {{"", {i64{0}}}},
              .stack_points = {"1"},
              .stacks = {{"a", {i64{0}}}}};
  CHECK(contains(plot(chart, {.width = 30}), "●"));
  check_well_formed("<g>" + draw_chart(chart, true).body + "</g>");
}
