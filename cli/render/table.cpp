// Reports as text for people: the verdict first, then aligned tables.
#include <algorithm>

#include "cli/render/people.hpp"
#include "cli/render/plot.hpp"
#include "cli/render/render.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// One printed column; a bytes column prints as two, and its bars as a third.
struct PrintedColumn {
  enum class Kind { left, right, bar };
  std::string title;
  Kind kind;
  std::vector<std::string> texts;
  i64 width = 0;
};

// The share of `value` in `most`, in eighths of a character.
std::string bar_of(i64 value, i64 most, bool ascii) {
  constexpr i64 kCharacters = 10;
  constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (most <= 0 || value <= 0) return "";
  // Large values are shortened first so that the product fits.
  while (most > i64{1} << 40) {
    most >>= 1;
    value >>= 1;
  }
  const i64 eighths = value * kCharacters * 8 / most;
  std::string bar;
  for (i64 i = 0; i < eighths / 8; ++i) bar += ascii ? "#" : "█";
  if (!ascii) bar += kEighths[eighths % 8];
  return bar;
}

class TablePrinter {
 public:
  TablePrinter(const Table& table, const RenderOptions& options)
      : options_(options), rows_(rows_for_people(table)), ranked_(rows_.size()) {
    for (const Row& footer : table.footers) rows_.push_back(&footer);
    for (std::size_t i = 0; i < table.columns.size(); ++i) add_column(table.columns[i], i);
    // Bars are the first to go where the terminal is narrow.
    if (total_width() > options.width)
      std::erase_if(columns_,
                    [](const PrintedColumn& column) { return column.kind == PrintedColumn::Kind::bar; });
  }

  std::string print() const {
    std::string out = line([](const PrintedColumn& column) -> const std::string& { return column.title; });
    for (std::size_t row = 0; row < rows_.size(); ++row)
      out += line([&](const PrintedColumn& column) -> const std::string& { return column.texts[row]; });
    return out;
  }

 private:
  using Kind = PrintedColumn::Kind;

  void add_column(const Column& column, std::size_t index) {
    if (column.audience == Audience::programs) return;
    PrintedColumn printed{column.title, column.kind == ColumnKind::text ? Kind::left : Kind::right, {}};
    PrintedColumn mib{"MiB", Kind::right, {}};
    PrintedColumn bar{"", Kind::bar, {}};
    i64 most = 0;
    for (std::size_t i = 0; i < ranked_; ++i) most = max_of(most, bytes_of(rows_[i]->cells[index]));
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      const Cell& cell = rows_[i]->cells[index];
      printed.texts.push_back(cell_text(cell));
      mib.texts.push_back(std::holds_alternative<i64>(cell) ? mebibytes(bytes_of(cell)) : "");
      bar.texts.push_back(i < ranked_ ? bar_of(bytes_of(cell), most, options_.ascii) : "");
    }
    add(std::move(printed));
    if (column.kind == ColumnKind::bytes) add(std::move(mib));
    if (column.draws_bar) add(std::move(bar));
  }

  void add(PrintedColumn column) {
    column.width = display_width(column.title);
    for (const std::string& text : column.texts) column.width = max_of(column.width, display_width(text));
    columns_.push_back(std::move(column));
  }

  i64 total_width() const {
    i64 width = 0;
    for (const PrintedColumn& column : columns_) width += column.width + 2;
    return width - 2;
  }

  // One text a column, aligned, without blanks at the end.
  template <class TextOf>
  std::string line(TextOf text_of) const {
    std::string out;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const PrintedColumn& column = columns_[i];
      const std::string& text = text_of(column);
      const std::string pad(static_cast<std::size_t>(column.width - display_width(text)), ' ');
      if (i > 0) out += "  ";
      out += column.kind == Kind::right ? pad + text : text + pad;
    }
    out.erase(out.find_last_not_of(' ') + 1);
    return out + "\n";
  }

  const RenderOptions& options_;
  std::vector<const Row*> rows_;
  std::size_t ranked_;  // rows that are no footers
  std::vector<PrintedColumn> columns_;
};

void append_table(std::string& out, const Table& table, const RenderOptions& options) {
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

void append_report(std::string& out, const Report& report, const RenderOptions& options) {
  out += concat(printable(report.verdict), "\n");
  if (options.quiet) return;
  if (!report.subject.empty()) out += concat("\n", printable(report.subject), "\n");
  for (const Table& table : report.tables) append_table(out, table, options);
  if (options.plots && report.chart) out += concat("\n", plot(*report.chart, options));
  if (!report.findings.empty() || !report.notes.empty()) out += "\n";
  for (const Finding& finding : report.findings) {
    out += concat(finding.level, "[", finding.rule, "] ", printable(finding.message), "\n");
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
