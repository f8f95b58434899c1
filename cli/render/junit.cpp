// Reports as JUnit XML, by the element rules of Surefire: one testsuite a config, one testcase a check that
// its report lists and a rule of the other findings. An error fails its testcase; warnings and notes pass,
// with their text as its output.
#include <algorithm>
#include <utility>

#include "cli/render/marks.hpp"
#include "cli/render/markup.hpp"
#include "cli/render/render.hpp"
#include "cli/render/rows.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

std::string line_of(const Mark& mark) {
  std::string line = concat(mark.level, ": ", markup(mark.message));
  if (!mark.remedy.empty()) line += concat("; fix: ", markup(mark.remedy));
  if (!mark.pointer.empty())
    line += concat(" (", markup(mark.source), ":", mark.line, " ", markup(mark.pointer), ")");
  return line;
}

struct Case {
  std::string name;         // of a check, or a rule
  std::vector<Mark> marks;  // none: passed without a word
  std::string skipped = {};
};

struct Suite {
  std::string name;
  std::string output;  // of its verdict case
  std::vector<Case> cases;
};

Case& case_of(Suite& suite, const std::string& rule) {
  const auto found = std::ranges::find(suite.cases, rule, &Case::name);
  return found != suite.cases.end() ? *found : suite.cases.emplace_back(Case{rule, {}});
}

const Mark* first_error(const Case& c) {
  const auto found = std::ranges::find(c.marks, "error", &Mark::level);
  return found == c.marks.end() ? nullptr : &*found;
}

void append_case(std::string& out, const Suite& suite, const Case& c) {
  std::vector<std::string> lines;
  for (const Mark& mark : c.marks) lines.push_back(line_of(mark));
  const Mark* error = first_error(c);
  out +=
      concat("    <testcase name=\"", markup(c.name), "\" classname=\"", markup(suite.name), "\" time=\"0\"");
  if (error) {
    const std::string_view element = error->is_mistake ? "error" : "failure";
    out += concat(">\n      <", element, " message=\"", markup(error->message), "\" type=\"",
                  markup(error->rule), "\">", join(lines, "\n"), "</", element, ">\n    </testcase>\n");
  } else if (!c.skipped.empty()) {
    out += concat(">\n      <skipped message=\"", markup(c.skipped), "\"/>\n    </testcase>\n");
  } else if (!lines.empty() || (c.name == kVerdictRule && !suite.output.empty())) {
    out += concat(">\n      <system-out>", lines.empty() ? markup(suite.output) : join(lines, "\n"),
                  "</system-out>\n    </testcase>\n");
  } else {
    out += "/>\n";
  }
}

// Suites of configs with mistakes come first, each with a case for every error word.
std::vector<Suite> suites_of(std::span<const Report> reports, std::span<const Problem> problems) {
  std::vector<Suite> suites;
  for (const Mark& mark : marks_of({}, problems)) {
    const std::string name = mark.source.empty() ? "moeplan" : mark.source;
    auto suite = std::ranges::find(suites, name, &Suite::name);
    if (suite == suites.end()) suite = suites.insert(suites.end(), Suite{name, "", {}});
    case_of(*suite, mark.rule).marks.push_back(mark);
  }
  for (const Report& report : reports) {
    const std::string label = label_of(report);
    Suite suite{label.empty() ? "moeplan" : label, report.verdict, {Case{std::string(kVerdictRule), {}}}};
    std::vector<Mark> marks = marks_of(report);
    const auto first = static_cast<std::size_t>(std::ssize(marks) - std::ssize(report.findings));
    for (const ReportCheck& check : report.checks) {
      Case& made = case_of(suite, check.name);
      made.skipped = check.skipped;
      for (const std::size_t finding : check.findings)
        made.marks.push_back(std::exchange(marks[first + finding], {}));
    }
    for (const Mark& mark : marks)
      if (!mark.rule.empty()) case_of(suite, mark.rule).marks.push_back(mark);
    suites.push_back(std::move(suite));
  }
  return suites;
}

}  // namespace

std::string render_junit(std::span<const Report> reports, std::span<const Problem> problems,
                         const RenderOptions&) {
  std::string body;
  i64 all_tests = 0, all_failures = 0, all_errors = 0;
  for (const Suite& suite : suites_of(reports, problems)) {
    i64 failures = 0, errors = 0, skipped = 0;
    std::string cases;
    for (const Case& c : suite.cases) {
      append_case(cases, suite, c);
      const Mark* error = first_error(c);
      if (error) ++(error->is_mistake ? errors : failures);
      skipped += !error && !c.skipped.empty();
    }
    const auto tests = static_cast<i64>(suite.cases.size());
    body += concat("  <testsuite name=\"", markup(suite.name), "\" tests=\"", tests, "\" failures=\"",
                   failures, "\" errors=\"", errors, "\" skipped=\"", skipped, "\" time=\"0\">\n", cases,
                   "  </testsuite>\n");
    all_tests += tests;
    all_failures += failures;
    all_errors += errors;
  }
  return concat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"moeplan\" tests=\"",
                all_tests, "\" failures=\"", all_failures, "\" errors=\"", all_errors, "\" time=\"0\">\n",
                body, "</testsuites>\n");
}

}  // namespace moeplan
