// Reports as JUnit XML, by the element rules of Surefire: one testsuite a config, one testcase a rule. An
// error fails its testcase; warnings and notes pass, with their text as its output.
#include <algorithm>

#include "cli/render/marks.hpp"
#include "cli/render/render.hpp"
#include "cli/render/rows.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// For attributes and content alike. What XML 1.0 cannot hold is escaped as printable() does.
std::string xml(std::string_view text) {
  constexpr std::pair<char, std::string_view> kEntities[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&apos;"}};
  std::string out;
  const std::string safe = printable(text);
  for (std::size_t i = 0; i < safe.size(); ++i) {
    const std::string_view rest = std::string_view(safe).substr(i);
    const auto* entity = std::ranges::find(kEntities, safe[i], &std::pair<char, std::string_view>::first);
    if (rest.starts_with("\xEF\xBF\xBE") || rest.starts_with("\xEF\xBF\xBF")) {
      out += rest[2] == '\xBE' ? "\\xef\\xbf\\xbe" : "\\xef\\xbf\\xbf";
      i += 2;
    } else if (entity != std::end(kEntities)) {
      out += entity->second;
    } else {
      out += safe[i];
    }
  }
  return out;
}

std::string line_of(const Mark& mark) {
  std::string line = concat(mark.level, ": ", xml(mark.message));
  if (!mark.remedy.empty()) line += concat("; fix: ", xml(mark.remedy));
  if (!mark.pointer.empty())
    line += concat(" (", xml(mark.source), ":", mark.line, " ", xml(mark.pointer), ")");
  return line;
}

struct Case {
  std::string rule;
  std::vector<Mark> marks;  // none: passed without a word
};

struct Suite {
  std::string name;
  std::string output;  // of its verdict case
  std::vector<Case> cases;
};

Case& case_of(Suite& suite, const std::string& rule) {
  const auto found = std::ranges::find(suite.cases, rule, &Case::rule);
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
  out += concat("    <testcase name=\"", xml(c.rule), "\" classname=\"", xml(suite.name), "\" time=\"0\"");
  if (error) {
    const std::string_view element = error->is_mistake ? "error" : "failure";
    out += concat(">\n      <", element, " message=\"", xml(error->message), "\" type=\"", xml(c.rule), "\">",
                  join(lines, "\n"), "</", element, ">\n    </testcase>\n");
  } else if (!lines.empty() || (c.rule == kVerdictRule && !suite.output.empty())) {
    out += concat(">\n      <system-out>", lines.empty() ? xml(suite.output) : join(lines, "\n"),
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
    for (const Mark& mark : marks_of(report)) case_of(suite, mark.rule).marks.push_back(mark);
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
    i64 failures = 0, errors = 0;
    std::string cases;
    for (const Case& c : suite.cases) {
      append_case(cases, suite, c);
      if (const Mark* error = first_error(c)) ++(error->is_mistake ? errors : failures);
    }
    const auto tests = static_cast<i64>(suite.cases.size());
    body += concat("  <testsuite name=\"", xml(suite.name), "\" tests=\"", tests, "\" failures=\"", failures,
                   "\" errors=\"", errors, "\" skipped=\"0\" time=\"0\">\n", cases, "  </testsuite>\n");
    all_tests += tests;
    all_failures += failures;
    all_errors += errors;
  }
  return concat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"moeplan\" tests=\"",
                all_tests, "\" failures=\"", all_failures, "\" errors=\"", all_errors, "\" time=\"0\">\n",
                body, "</testsuites>\n");
}

}  // namespace moeplan
