// Reports as text for people: the verdict first, then aligned tables.
#include "cli/render/color.hpp"
#include "cli/render/people.hpp"
#include "cli/render/plot.hpp"
#include "cli/render/render.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

class TablePrinter {
 public:
  TablePrinter(const Table& table, const RenderOptions& options)
      : columns_(people_columns(table, options)), rows_(table.rows.size() + table.footers.size()) {
    measure();
    // Bars are the first to go where the terminal is narrow.
    if (total_width() <= options.width) return;
    std::erase_if(columns_, [](const PeopleColumn& column) { return column.kind == Kind::bar; });
    measure();
  }

  std::string print() const {
    std::string out = line([](const PeopleColumn& column) -> const std::string& { return column.title; });
    for (std::size_t row = 0; row < rows_; ++row)
      out += line([&](const PeopleColumn& column) -> const std::string& { return column.texts[row]; });
    return out;
  }

 private:
  using Kind = PeopleColumn::Kind;

  void measure() {
    widths_.clear();
    for (const PeopleColumn& column : columns_) {
      i64 width = display_width(column.title);
      for (const std::string& text : column.texts) width = max_of(width, display_width(text));
      widths_.push_back(width);
    }
  }

  i64 total_width() const {
    i64 width = 0;
    for (const i64 column : widths_) width += column + 2;
    return width - 2;
  }

  // One text a column, aligned, without blanks at the end.
  template <class TextOf>
  std::string line(TextOf text_of) const {
    std::string out;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string& text = text_of(columns_[i]);
      const std::string pad(static_cast<std::size_t>(widths_[i] - display_width(text)), ' ');
      if (i > 0) out += "  ";
      out += columns_[i].kind == Kind::right ? pad + text : text + pad;
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out + "\n";
  }

  std::vector<PeopleColumn> columns_;
  std::size_t rows_;
  std::vector<i64> widths_;
};

void append_table(std::string& out, const Table& table, const RenderOptions& options) {
  if (!is_for_people(table)) return;
  if (!table.title.empty())
    out += concat("\n", printable(table.title), "\n");
  else
    out += "\n";
  out += TablePrinter(table, options).print();
  for (const Row& row : table.rows) {
    for (const Table& detail : row.details) append_table(out, detail, options);
  }
}

std::string without_glyphs(std::string text) {
  const std::pair<std::string_view, std::string_view> kReplacements[] = {
      {" · ", ", "}, {"…", "..."}, {"×", "x"}, {"▁", "."}, {"▂", ":"}, {"▃", "-"},
      {"▄", "="},    {"▅", "+"},   {"▆", "*"}, {"▇", "%"}, {"█", "#"}};
  for (const auto& [from, to] : kReplacements) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  }
  return text;
}

Color color_of(const Finding& finding) {
  constexpr Color kColors[] = {Color::cyan, Color::yellow, Color::red};
  return kColors[severity_of(finding.level)];
}

void append_report(std::string& out, const Report& report, const RenderOptions& options) {
  out += concat(
      colored(printable(report.verdict), report.answered_no ? Color::red : Color::bold, options.color), "\n");
  if (options.quiet) return;
  if (!report.subject.empty()) out += concat("\n", printable(report.subject), "\n");
  for (const Table& table : report.tables) append_table(out, table, options);
  if (options.plots && report.chart) out += concat("\n", plot(*report.chart, options));
  if (!report.findings.empty() || !report.notes.empty()) out += "\n";
  for (const Finding& finding : report.findings) {
    out += concat(colored(concat(finding.level, "[", finding.rule, "]"), color_of(finding), options.color),
                  " ", printable(finding.message), "\n");
    if (!finding.remedy.empty()) out += concat("  fix: ", printable(finding.remedy), "\n");
  }
  for (const std::string& note : report.notes) out += concat("note  ", printable(note), "\n");
}

}  // namespace

std::string render_table(std::span<const Report> reports, std::span<const Problem>,
                         const RenderOptions& options) {
  std::string out;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (i > 0 && !options.quiet) out += "\n\n";
    append_report(out, reports[i], options);
  }
  return options.ascii ? without_glyphs(std::move(out)) : out;
}

}  // namespace moeplan
