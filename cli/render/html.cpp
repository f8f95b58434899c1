// Reports as one page: verdict, chart, tables, findings and notes. No scripts, nothing that is loaded.
#include "cli/render/chart_svg.hpp"
#include "cli/render/markup.hpp"
#include "cli/render/people.hpp"
#include "cli/render/render.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr std::string_view kStyle = R"(:root{color-scheme:light dark;
--ink:#1b1f24;--faint:#59636e;--grid:#d8dee4;--paper:#ffffff;--band:#f4f6f8}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--faint:#9aa4af;--grid:#30363d;--paper:#0d1117;--band:#161b22}}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,"Segoe UI",Roboto,Arial,sans-serif}
main{max-width:76rem;margin:0 auto;padding:1rem}
h1{font-size:1.2rem;overflow-wrap:anywhere}h2,caption{font-size:1rem;font-weight:600;text-align:left}
p,li,td,th,caption{overflow-wrap:anywhere}
.subject,.note{color:var(--faint)}
svg.drawing{display:block;width:100%;max-width:35rem;height:auto}
table{border-collapse:collapse;margin:1.5rem 0;font-variant-numeric:tabular-nums}
caption{padding:.3rem .6rem}
th,td{padding:.25rem .6rem;border-bottom:1px solid var(--grid);text-align:left;vertical-align:top;font-weight:400}
thead th{font-weight:600;color:var(--faint)}
tbody th{font-weight:600}
.n{text-align:right}
tfoot td,tfoot th{color:var(--faint)}
.details{margin-left:1rem}
@media(max-width:60rem){
table,caption,tbody,tfoot,tr,th,td{display:block}
table{margin:1rem 0}
thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
tr{border:1px solid var(--grid);border-radius:6px;margin:.5rem 0;background:var(--band)}
th,td{display:flex;justify-content:space-between;gap:1rem;text-align:right;border-bottom:0;padding:.2rem .6rem}
td:empty{display:none}
td:not([data-title]){justify-content:flex-end}
th[data-title]::before,td[data-title]::before{content:attr(data-title);color:var(--faint);font-weight:400;text-align:left}
.details{margin-left:0}
})";

std::string_view class_of(const PeopleColumn& column) {
  return column.kind == PeopleColumn::Kind::right ? " class=\"n\"" : "";
}

// Texts of row `row`, the first as its head.
void append_row(std::string& out, std::span<const PeopleColumn> columns, std::size_t row) {
  out += "<tr role=\"row\">";
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const PeopleColumn& column = columns[i];
    // Roles are written out: narrow pages show rows as cards, and browsers then forget that they are a table.
    const std::string_view tag = i == 0 ? "th" : "td";
    out += concat("<", tag, i == 0 ? " scope=\"row\" role=\"rowheader\"" : " role=\"cell\"", class_of(column),
                  column.title.empty() ? "" : concat(" data-title=\"", markup(column.title), "\""), ">",
                  markup(column.texts[row]), "</", tag, ">");
  }
  out += "</tr>\n";
}

void append_table(std::string& out, const Table& table, const RenderOptions& options) {
  if (!is_for_people(table)) return;
  std::vector<PeopleColumn> columns = people_columns(table, options);
  std::erase_if(columns, [](const PeopleColumn& column) { return column.kind == PeopleColumn::Kind::bar; });
  out += concat("<table role=\"table\">\n<caption>", markup(table.title.empty() ? table.key : table.title),
                "</caption>\n<thead role=\"rowgroup\"><tr role=\"row\">");
  for (const PeopleColumn& column : columns)
    out += concat("<th scope=\"col\" role=\"columnheader\"", class_of(column), ">", markup(column.title),
                  "</th>");
  out += "</tr></thead>\n<tbody role=\"rowgroup\">\n";
  const std::size_t rows = table.rows.size();
  for (std::size_t row = 0; row < rows; ++row) append_row(out, columns, row);
  out += "</tbody>\n";
  if (!table.footers.empty()) {
    out += "<tfoot role=\"rowgroup\">\n";
    for (std::size_t i = 0; i < table.footers.size(); ++i) append_row(out, columns, rows + i);
    out += "</tfoot>\n";
  }
  out += "</table>\n";
  for (const Row& row : table.rows) {
    if (row.details.empty()) continue;
    out += "<div class=\"details\">\n";
    for (const Table& detail : row.details) append_table(out, detail, options);
    out += "</div>\n";
  }
}

// The numbers of a chart's stacks, which its drawing shows as lengths.
Table stacks_table(const Chart& chart) {
  Table table;
  table.key = "stacks";
  table.title = "what the bytes are";
  table.columns = {{"part", "PART"}};
  for (const std::string& point : chart.stack_points) table.columns.push_back({"", point, ColumnKind::count});
  for (const ChartSeries& part : chart.stacks) {
    Row row{{part.name}, {}};
    for (const auto& value : part.values) row.cells.push_back(value ? Cell(*value) : Cell());
    table.rows.push_back(std::move(row));
  }
  return table;
}

void append_chart(std::string& out, const Chart& chart, std::size_t number) {
  const Drawing drawing = draw_chart(chart, false);
  out +=
      concat("<svg class=\"drawing\" role=\"img\" aria-labelledby=\"chart", number, "\" viewBox=\"0 0 ",
             kDrawingWidth, " ", drawing.height, "\">\n<title id=\"chart", number, "\">", markup(chart.title),
             "; the numbers are in the tables below</title>\n", drawing.body, "</svg>\n");
}

void append_report(std::string& out, const Report& report, std::size_t number, const RenderOptions& options) {
  out += concat("<section aria-labelledby=\"verdict", number, "\">\n<h1 id=\"verdict", number, "\">",
                markup(report.verdict), "</h1>\n");
  if (!options.quiet) {
    if (!report.subject.empty()) out += concat("<p class=\"subject\">", markup(report.subject), "</p>\n");
    if (report.chart) append_chart(out, *report.chart, number);
    for (const Table& table : report.tables) append_table(out, table, options);
    if (report.chart && !report.chart->stacks.empty())
      append_table(out, stacks_table(*report.chart), options);
    if (!report.findings.empty()) out += "<h2>Findings</h2>\n<ul>\n";
    for (const Finding& finding : report.findings)
      out += concat("<li><strong>", markup(finding.level), " ", markup(finding.rule), "</strong> ",
                    markup(finding.message),
                    finding.remedy.empty() ? "" : concat("<br>fix: ", markup(finding.remedy)), "</li>\n");
    if (!report.findings.empty()) out += "</ul>\n";
    for (const std::string& note : report.notes) out += concat("<p class=\"note\">", markup(note), "</p>\n");
  }
  out += "</section>\n";
}

}  // namespace

std::string render_html(std::span<const Report> reports, std::span<const Problem>,
                        const RenderOptions& options) {
  std::string out = concat(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      // What the page promises, a browser enforces.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
      markup(reports.empty() ? "moeplan" : reports.front().verdict), "</title>\n<style>\n", drawing_style(),
      kStyle, "\n</style>\n</head>\n<body>\n<main>\n");
  for (std::size_t i = 0; i < reports.size(); ++i) append_report(out, reports[i], i, options);
  return out + "</main>\n</body>\n</html>\n";
}

}  // namespace moeplan
