// Reports as GitHub Markdown, for comments and job summaries: the verdict, findings, tables, and the tables
// behind a row folded away. It ends at a whole row where it would be longer than its reader takes.
#include "cli/render/marks.hpp"
#include "cli/render/people.hpp"
#include "cli/render/render.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// Texts of others must not become markup, links, mentions or references. ZERO WIDTH SPACE (&#8203;) breaks
// what is linked after the markup was read.
std::string escaped(std::string_view text, std::string_view with_backslash) {
  constexpr std::pair<std::string_view, std::string_view> kReplacements[] = {
      {"&", "&amp;"},    {"<", "&lt;"},         {">", "&gt;"},          {"\"", "&quot;"},
      {"@", "@&#8203;"}, {"://", ":&#8203;//"}, {"www.", "www&#8203;."}};
  const std::string safe = printable(text);
  std::string out;
  for (std::size_t i = 0; i < safe.size();) {
    const std::string_view rest = std::string_view(safe).substr(i);
    std::size_t taken = 0;
    for (const auto& [from, to] : kReplacements) {
      if (!rest.starts_with(from)) continue;
      out += to;
      taken = from.size();
      break;
    }
    if (taken == 0) {
      if (with_backslash.find(rest[0]) != std::string_view::npos) out += '\\';
      out += rest[0];
      if (rest[0] == '#') out += "&#8203;";
      taken = 1;
    }
    i += taken;
  }
  return out;
}

std::string inline_text(std::string_view text) { return escaped(text, "\\`*_{}[]()|~$#!"); }
std::string html_text(std::string_view text) { return escaped(text, ""); }

// A page of limited length. What no longer fits is left out, to its last line.
class Page {
 public:
  explicit Page(i64 most_bytes) : most_bytes_(most_bytes) {}

  // Adds text as a whole, or nothing from here on.
  void add(std::string_view text) {
    // Room for the folds that are open, and for the line that says what is missing.
    const i64 reserved = kLastLine + depth_ * static_cast<i64>(kFoldEnd.size());
    is_full_ = is_full_ || static_cast<i64>(out_.size() + text.size()) + reserved > most_bytes_;
    if (!is_full_) out_ += text;
  }
  void add_row(std::string_view text) {
    add(text);
    if (is_full_) ++rows_left_out_;
  }
  // Whether the fold was opened: only then it is closed.
  [[nodiscard]] bool open_fold(std::string_view summary) {
    ++depth_;
    add(concat("\n<details><summary>", summary, "</summary>\n\n"));
    if (is_full_) --depth_;
    return !is_full_;
  }
  void close_fold() {
    --depth_;
    out_ += kFoldEnd;
  }

  std::string finish() && {
    if (!is_full_) return std::move(out_);
    const std::string line =
        rows_left_out_ > 0
            ? concat("\n", rows_left_out_, " more table rows and what follows them are left out")
            : std::string("\nThe rest is left out");
    // Nothing at all is better than more than the reader takes.
    if (most_bytes_ < kLastLine) return "";
    return concat(out_, line, ": a job summary holds at most ", kSummaryBytes, " bytes.\n");
  }

 private:
  static constexpr i64 kLastLine = 160;
  static constexpr std::string_view kFoldEnd = "\n</details>\n";
  std::string out_;
  i64 most_bytes_;
  i64 depth_ = 0;
  i64 rows_left_out_ = 0;
  bool is_full_ = false;
};

std::string row_of(const std::vector<PeopleColumn>& columns, auto text_of) {
  std::string line = "|";
  for (const PeopleColumn& column : columns) {
    const std::string text = text_of(column);
    line += concat(" ", text, text.empty() ? "|" : " |");
  }
  return line + "\n";
}

void add_table(Page& page, const Table& table) {
  auto columns = people_columns(table, {});
  std::erase_if(columns, [](const PeopleColumn& column) { return column.kind == PeopleColumn::Kind::bar; });
  // A table without its head is none: both lines or neither.
  page.add(row_of(columns, [](const PeopleColumn& column) { return inline_text(column.title); }) +
           row_of(columns, [](const PeopleColumn& column) {
             return std::string(column.kind == PeopleColumn::Kind::right ? "---:" : "---");
           }));
  for (std::size_t i = 0; i < table.rows.size() + table.footers.size(); ++i)
    page.add_row(row_of(columns, [&](const PeopleColumn& column) { return inline_text(column.texts[i]); }));
  for (const Row& row : table.rows) {
    for (const Table& detail : row.details) {
      const bool is_open = page.open_fold(html_text(detail.title.empty() ? detail.key : detail.title));
      add_table(page, detail);
      if (is_open) page.close_fold();
    }
  }
}

std::string line_of(const Finding& finding, const std::string& path) {
  std::string line =
      concat("- **", finding.level, "** ", inline_text(finding.rule), ": ", inline_text(finding.message));
  if (!finding.remedy.empty()) line += concat("; fix: ", inline_text(finding.remedy));
  if (!path.empty() && finding.line > 0) line += concat(" (", inline_text(path), ":", finding.line, ")");
  return line + "\n";
}

void add_report(Page& page, const Report& report, const RenderOptions& options) {
  page.add(concat("### ", inline_text(report.verdict), "\n\n"));
  if (options.quiet) return;
  // In HTML no text can start a list or a heading.
  if (!report.subject.empty()) page.add(concat("<p>", html_text(report.subject), "</p>\n\n"));
  for (const Finding& finding : report.findings) page.add(line_of(finding, path_of(report.source, options)));
  if (!report.findings.empty()) page.add("\n");
  for (const Table& table : report.tables) {
    if (!is_for_people(table)) continue;
    if (!table.title.empty()) page.add(concat("**", inline_text(table.title), "**\n\n"));
    add_table(page, table);
    page.add("\n");
  }
  for (const std::string& note : report.notes)
    page.add(concat("- ", inline_text(concat("note: ", note)), "\n"));
  page.add("\n");
}

void add_problem(Page& page, const Problem& problem) {
  const auto& [error, place] = problem;
  std::string line =
      concat("- **error** ", inline_text(name_of(error.code)), ": ", inline_text(error.message));
  if (!place.source.empty()) line += concat(" (", inline_text(place.source));
  if (!place.source.empty() && place.line > 0) line += concat(":", place.line, ":", place.column);
  if (!place.source.empty()) line += ")";
  if (!error.help.empty()) line += concat("; fix: ", inline_text(error.help));
  page.add(line + "\n");
}

}  // namespace

std::string render_markdown(std::span<const Report> reports, std::span<const Problem> problems,
                            const RenderOptions& options) {
  Page page(options.most_bytes);
  if (!problems.empty()) page.add("### Not answered\n\n");
  for (const Problem& problem : problems) add_problem(page, problem);
  if (!problems.empty()) page.add("\n");
  for (const Report& report : reports) add_report(page, report, options);
  return std::move(page).finish();
}

}  // namespace moeplan
