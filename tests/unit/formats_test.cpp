// What each format makes of a report, of texts that try to steer it, and of more than it may hold.
#include <clocale>
#include <cwchar>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "cli/io/utf8.hpp"
#include "cli/render/color.hpp"
#include "cli/render/marks.hpp"
#include "cli/render/render.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"
#include "tests/catch.hpp"

using namespace moeplan;
using Json = nlohmann::json;

namespace {

// A report with a text of somebody's in every place that takes one.
Report report_about(const std::string& text) {
  Report report;
  report.schema = "moeplan.test/1";
  report.verdict = text;
  report.subject = text;
  report.source = text;
  report.facts = {{"name", text}};
  report.totals = {{text, i64{1}}};
  Table detail;
  detail.key = "parts";
  detail.title = text;
  detail.columns = {{"part", "PART"}};
  detail.rows = {{{text}, {}}};
  Table table;
  table.key = "rows";
  table.title = text;
  table.columns = {{"id", "ID"}, {"bytes", "BYTES", ColumnKind::bytes}};
  table.rows = {{{text, i64{1} << 20}, {detail}}, {{std::string("plain"), i64{-3}}, {}}};
  report.tables = {table};
  report.findings = {{"a-rule", "warning", "/" + text, text, text, 7, 3, 5}};
  report.notes = {text};
  return report;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

Report with_findings(const std::string& level, int count) {
  Report report;
  report.verdict = "a verdict";
  report.source = "a.json";
  for (int i = 0; i < count; ++i)
    report.findings.push_back({"rule", level, "/x", concat("finding ", i), "", i, 1, 1});
  return report;
}

std::string utf8_of(char32_t code) {
  const auto byte = [](char32_t bits) { return static_cast<char>(static_cast<unsigned char>(bits)); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xC0 | code >> 6), byte(0x80 | (code & 63))};
  if (code < 0x10000)
    return {byte(0xE0 | code >> 12), byte(0x80 | (code >> 6 & 63)), byte(0x80 | (code & 63))};
  return {byte(0xF0 | code >> 18), byte(0x80 | (code >> 12 & 63)), byte(0x80 | (code >> 6 & 63)),
          byte(0x80 | (code & 63))};
}

}  // namespace

TEST_CASE("no text of an input steers what reads a format, whichever character it starts or ends with") {
  const std::string kTexts[] = {"\n::error::x",
                                "  ::error::x",
                                "::add-mask::x",
                                "a##[error]x",
                                "\r::error::x",
                                "\x1b[31m",
                                "\x7f",
                                "\xC2\x9B"
                                "31m",
                                "\xE2\x80\xAE",
                                "\xE2\x81\xA6",
                                "\xD8\x9C",
                                "\xE2\x80\x8F",
                                "\xE2\x80\xA8::x",
                                "\xff\xfe",
                                "\xC0\x80",
                                std::string("\0x", 2),
                                "\xED\xA0\x80",
                                "]]>",
                                "<img src=x>",
                                "`|*_[x](y)"};
  for (const std::string& text : kTexts) {
    const Report reports[] = {report_about(text)};
    const Problem problems[] = {
        {Error{ErrorCode::invalid_value, text, text, text}, Place{text, 1, 1, text, 1}}};
    for (const Format& format : formats()) {
      const std::string out = format.render(std::span(reports), std::span(problems),
                                            {.working_folder = "/r", .root_folder = "/r"});
      INFO(format.name << "\n" << out);
      const std::string name(format.name);
      for (const std::string& line : lines_of(out)) {
        const std::size_t begin = line.find_first_not_of(' ');
        if (begin == std::string::npos || !std::string_view(line).substr(begin).starts_with("::")) continue;
        const bool is_ours = name == "github" &&
                             (line.starts_with("::warning file=") || line.starts_with("::warning title=") ||
                              line.starts_with("::error file=") || line.starts_with("::error title="));
        CHECK(is_ours);
      }
      // JSON keeps "##[" inside its quotes.
      if (name != "json" && name != "jsonl" && name != "sarif") CHECK(count_of(out, "##[") == 0);
      const std::string allowed = name == "csv" ? "\r\n" : name == "tsv" ? "\t\n" : "\n";
      for (std::size_t i = 0; i < out.size();) {
        const std::string_view rest = std::string_view(out).substr(i);
        const std::size_t length = utf8_length(rest);
        REQUIRE(length > 0);
        const bool is_allowed = allowed.find(out[i]) != std::string::npos;
        if (!is_allowed) REQUIRE(!is_steering(utf8_code(rest, length)));
        i += length;
      }
    }
    CHECK(render_problems(problems).find("##[") == std::string::npos);
  }
}

TEST_CASE("JSON stays JSON whatever a plan is called, and keeps its name") {
  const std::string name = "a\"b\\\n\xE2\x80\xAE";
  const Report reports[] = {report_about(name)};
  const Json json = Json::parse(render_json(reports, {}, {}));
  CHECK(json["totals"][name] == 1);
  CHECK(json["rows"][0]["id"] == name);
  CHECK(json["rows"][0]["parts"][0]["part"] == name);
  for (const std::string& line : lines_of(render_jsonl(reports, {}, {}))) {
    INFO(line);
    CHECK(Json::parse(line)["report"] == name);
  }
}

TEST_CASE("JSON lines hold each row once, with its table and what it is about") {
  const Report reports[] = {report_about("x")};
  const Problem problems[] = {{Error{ErrorCode::unreadable, "", "gone", ""}, Place{"y.json"}}};
  std::vector<std::string> tables;
  for (const std::string& line : lines_of(render_jsonl(reports, problems, {}))) {
    const Json row = Json::parse(line);
    tables.push_back(row["table"]);
    if (row["table"] == "parts") CHECK(row["about"] == "x");
    if (row["table"] == "rows") CHECK(row.contains("bytes"));
    if (row["table"] == "errors") CHECK(row["report"] == "y.json");
  }
  CHECK(tables == std::vector<std::string>{"report", "rows", "parts", "rows", "findings", "notes", "errors"});
}

TEST_CASE("CSV has one header for all tables, quotes by RFC 4180, and shows formulas as texts") {
  for (const auto& [text, cell] : {std::pair<std::string, std::string>{"=1+1", "'=1+1"},
                                   {"+1", "'+1"},
                                   {"-1", "'-1"},
                                   {"@x", "'@x"},
                                   {"＝1", "'＝1"},
                                   {"a,b", "\"a,b\""},
                                   {"a\"b", "\"a\"\"b\""},
                                   {"=a,\"b\"", "\"'=a,\"\"b\"\"\""},
                                   {"a\nb", "a\\x0ab"},
                                   {"1=1", "1=1"}}) {
    Report report = report_about("x");
    report.tables[0].rows[0].cells[0] = text;
    report.tables[0].rows[0].details.clear();
    const Report reports[] = {report};
    CHECK(render_csv(reports, {}, {}) ==
          "report,table,about,id,bytes\r\n"
          "x,rows,," +
              cell +
              ",1048576\r\n"
              "x,rows,,plain,-3\r\n");
  }
  const Report reports[] = {report_about("x\ty")};
  CHECK(render_tsv(reports, {}, {}) ==
        "report\ttable\tabout\tid\tbytes\tpart\n"
        "x\\x09y\trows\t\tx\\x09y\t1048576\t\n"
        "x\\x09y\tparts\tx\\x09y\t\t\tx\\x09y\n"
        "x\\x09y\trows\t\tplain\t-3\t\n");
}

TEST_CASE("a kind with more than ten annotations shows the nine that cost most and counts the others") {
  for (const auto& [level, word] :
       {std::pair{"note", "notice"}, std::pair{"warning", "warning"}, std::pair{"error", "error"}}) {
    for (int count : {0, 1, 9, 10, 11, 12, 500}) {
      const Report reports[] = {with_findings(level, count)};
      const std::string out = render_github(reports, {}, {});
      INFO(out);
      CHECK(count_of(out, concat("::", word, " ")) == static_cast<std::size_t>(std::min(count, 10)));
      CHECK(count_of(out, " more in the summary") == (count > 10 ? 1u : 0u));
      if (count > 10) {
        CHECK(count_of(out, concat("::", count - 9, " more in the summary")) == 1);
        CHECK(count_of(out, concat("::finding ", count - 1)) == 1);
        CHECK(count_of(out, concat("::finding ", count - 10, "\n")) == 0);
      }
    }
  }
}

TEST_CASE(
    "an annotation escapes what its runner would read: percent everywhere, colon and comma in properties") {
  Report report = with_findings("error", 1);
  report.source = "a,b:c%.json";
  report.findings[0].message = "50%, really: yes";
  report.findings[0].line = 12;
  report.findings[0].column = 4;
  const Report reports[] = {report};
  CHECK(render_github(reports, {}, {.working_folder = "/r/deploy", .root_folder = "/r"}) ==
        "a verdict\n"
        "::error file=deploy/a%2Cb%3Ac%25.json,line=12,col=4,title=rule::50%25, really: yes\n");
  report.source = "stdin";
  const Report piped[] = {report};
  CHECK(count_of(render_github(piped, {}, {}), "::error title=rule::") == 1);
}

TEST_CASE("an answer of no is an error in every format for CI, finding or not") {
  Report report = with_findings("warning", 1);
  report.answered_no = true;
  const Report reports[] = {report};
  CHECK(count_of(render_github(reports, {}, {}), "title=verdict::a verdict") == 1);
  CHECK(count_of(render_junit(reports, {}, {}), "<failure message=\"a verdict\" type=\"verdict\">") == 1);
  const Json sarif = Json::parse(render_sarif(reports, {}, {}));
  CHECK(sarif["runs"][0]["results"][0]["ruleId"] == "verdict");
  CHECK(sarif["runs"][0]["results"][0]["level"] == "error");
}

TEST_CASE(
    "JUnit passes warnings and notes with their text, fails errors, and errs where nothing was answered") {
  Report report = with_findings("warning", 2);
  report.findings.push_back({"other", "error", "/y", "too much", "less", 0, 9, 1});
  const Report reports[] = {report};
  const Problem problems[] = {{Error{ErrorCode::unreadable, "", "gone", ""}, Place{"b.json"}}};
  CHECK(render_junit(reports, problems, {}) ==
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<testsuites name=\"moeplan\" tests=\"4\" failures=\"1\" errors=\"1\" time=\"0\">\n"
        "  <testsuite name=\"b.json\" tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\" time=\"0\">\n"
        "    <testcase name=\"unreadable\" classname=\"b.json\" time=\"0\">\n"
        "      <error message=\"gone\" type=\"unreadable\">error: gone</error>\n"
        "    </testcase>\n"
        "  </testsuite>\n"
        "  <testsuite name=\"a.json\" tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"0\" time=\"0\">\n"
        "    <testcase name=\"verdict\" classname=\"a.json\" time=\"0\">\n"
        "      <system-out>a verdict</system-out>\n"
        "    </testcase>\n"
        "    <testcase name=\"rule\" classname=\"a.json\" time=\"0\">\n"
        "      <system-out>warning: finding 0 (a.json:1 /x)\nwarning: finding 1 (a.json:1 /x)</system-out>\n"
        "    </testcase>\n"
        "    <testcase name=\"other\" classname=\"a.json\" time=\"0\">\n"
        "      <failure message=\"too much\" type=\"other\">error: too much; fix: less (a.json:9 "
        "/y)</failure>\n"
        "    </testcase>\n"
        "  </testsuite>\n"
        "</testsuites>\n");
}

TEST_CASE("JUnit escapes markup, and the two characters that XML cannot hold") {
  Report report = with_findings("note", 1);
  report.findings[0].message = "<&>\"'\xEF\xBF\xBE\xEF\xBF\xBF";
  const Report reports[] = {report};
  CHECK(count_of(render_junit(reports, {}, {}), "&lt;&amp;&gt;&quot;&#39;\\xef\\xbf\\xbe\\xef\\xbf\\xbf") ==
        1);
}

TEST_CASE("paths are relative to the repository, and absolute where they lie outside") {
  const RenderOptions options{.working_folder = "/repo/deploy", .root_folder = "/repo"};
  CHECK(path_of("a.json", options) == "deploy/a.json");
  CHECK(path_of("./b/../a.json", options) == "deploy/a.json");
  CHECK(path_of("../a.json", options) == "a.json");
  CHECK(path_of("/repo/x/a.json", options) == "x/a.json");
  CHECK(path_of("/repository/a.json", options) == "/repository/a.json");
  CHECK(path_of("../../a.json", options) == "/a.json");
  for (const char* no_file : {"", "stdin", "--set", "--contract"}) CHECK(path_of(no_file, options).empty());
}

TEST_CASE("SARIF encodes paths, and tells findings apart by rule, file and pointer alone") {
  const auto results = [](const Report& report) {
    const Report reports[] = {report};
    return Json::parse(
        render_sarif(reports, {}, {.working_folder = "/r", .root_folder = "/r"}))["runs"][0]["results"];
  };
  const auto print_of = [](const Json& result) { return result["partialFingerprints"]["moeplan/v1"]; };
  Report report = with_findings("warning", 2);
  report.source = "a b/ü%#?.json";
  const Json before = results(report);
  CHECK(before[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] ==
        "a%20b/%C3%BC%25%23%3F.json");
  CHECK(print_of(before[0]) != print_of(before[1]));
  report.findings[0].message = "another figure";
  report.findings[0].line = 99;
  CHECK(print_of(results(report)[0]) == print_of(before[0]));
  report.findings[0].pointer = "/y";
  CHECK(print_of(results(report)[0]) != print_of(before[0]));
  report.source = "/elsewhere/a.json";
  CHECK(results(report)[0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] ==
        "file:///elsewhere/a.json");
}

TEST_CASE("Markdown of any length stays within its limit, ends at a whole row and closes its folds") {
  Report report = report_about("a | text <b> ");
  const std::vector<Row> pair = report.tables[0].rows;
  for (int i = 0; i < 20; ++i)
    report.tables[0].rows.insert(report.tables[0].rows.end(), pair.begin(), pair.end());
  const Report reports[] = {report};
  const std::string whole = render_markdown(reports, {}, {});
  const auto whole_lines = lines_of(whole);
  const std::set<std::string> known(whole_lines.begin(), whole_lines.end());
  CHECK(count_of(whole, "are left out") == 0);
  CHECK(count_of(whole, "<details>") == 21);
  for (i64 most = 0; most <= static_cast<i64>(whole.size()) + 200; ++most) {
    const std::string page = render_markdown(reports, {}, {.most_bytes = most});
    INFO(most << "\n" << page);
    REQUIRE(static_cast<i64>(page.size()) <= most);
    REQUIRE(count_of(page, "<details>") == count_of(page, "</details>"));
    if (page == whole || page.empty()) continue;
    auto lines = lines_of(page);
    REQUIRE(lines.back().ends_with(": a job summary holds at most 1048576 bytes."));
    lines.pop_back();
    for (const std::string& line : lines) REQUIRE(known.contains(line));
  }
  CHECK(render_markdown(reports, {}, {.most_bytes = static_cast<i64>(whole.size()) + 200}) == whole);
}

TEST_CASE("Markdown shows somebody's text as it is: no markup, link, mention or reference") {
  Report report = report_about("x");
  report.verdict = "a|b `c` *d* _e_ [f](g) <h> &i; @team #12 https://j www.k.l \\";
  const Report reports[] = {report};
  CHECK(lines_of(render_markdown(reports, {}, {}))[0] ==
        "### a\\|b \\`c\\` \\*d\\* \\_e\\_ \\[f\\]\\(g\\) &lt;h&gt; &amp;i; @&#8203;team \\#&#8203;12 "
        "https:&#8203;//j www&#8203;.k.l \\\\");
}

TEST_CASE("wide characters take two columns, marks that combine none, broken bytes one") {
  CHECK(display_width("abc") == 3);
  CHECK(display_width("模型") == 4);
  CHECK(display_width("ﾊﾝｶｸ") == 4);
  CHECK(display_width("ｆｕｌｌ") == 8);
  CHECK(display_width("e\xCC\x81") == 1);
  CHECK(display_width("한글") == 4);
  CHECK(display_width("\xE1\x84\x92\xE1\x85\xA1\xE1\x86\xAB") == 2);  // the same syllable in its parts
  CHECK(display_width("🚀") == 2);
  CHECK(display_width("a\xE2\x80\x8B"
                      "b") == 2);
  CHECK(display_width("█▏·…") == 4);
  CHECK(display_width("\xff\xfe") == 2);
}

TEST_CASE("columns agree with the C library's for all but characters that newer Unicode editions moved") {
  if (!std::setlocale(LC_CTYPE, "C.UTF-8")) return;
  int compared = 0, differing = 0;
  for (char32_t code = 0x20; code < 0x110000; ++code) {
    if ((code >= 0xD800 && code < 0xE000) || is_steering(code)) continue;
    const int columns = wcwidth(static_cast<wchar_t>(code));
    if (columns < 0) continue;
    ++compared;
    differing += columns != display_width(utf8_of(code));
  }
  std::setlocale(LC_CTYPE, "C");
  CHECK(compared > 100'000);
  CHECK(differing < compared / 1000);
}

TEST_CASE("a table stays aligned around wide and combining characters") {
  Report report = report_about("x");
  report.tables[0].rows = {{{std::string("模型"), i64{1}}, {}}, {{std::string("e\xCC\x81"), i64{22}}, {}}};
  report.tables[0].title.clear();
  report.findings.clear();
  report.notes.clear();
  const Report reports[] = {report};
  CHECK(render_table(reports, {}, {.units = Units::bytes}) ==
        "x\n\nx\n\n"
        "ID    BYTES\n"
        "模型      1\n"
        "e\xCC\x81        22\n");
}

TEST_CASE("units show bytes as bytes, MiB, GiB, or each in the largest unit it fills") {
  Report report = report_about("x");
  report.tables[0].columns[1].title = "GAINED BYTES";
  report.tables[0].rows = {};
  for (i64 bytes : {i64{0}, i64{1023}, i64{1024}, -(i64{3} << 19), (i64{1} << 20) - 1, i64{5} << 28})
    report.tables[0].rows.push_back({{std::string("r"), bytes}, {}});
  const Report reports[] = {report};
  const auto lines = [&](Units units) {
    const auto all = lines_of(render_table(reports, {}, {.units = units}));
    return std::vector<std::string>(all.begin() + 5, all.begin() + 12);
  };
  CHECK(lines(Units::bytes)[0] == "ID   GAINED BYTES");
  CHECK(lines(Units::bytes)[6] == "r   1,342,177,280");
  CHECK(lines(Units::mib)[0] == "ID  GAINED MiB");
  CHECK(lines(Units::mib)[6] == "r     1,280.00");
  CHECK(lines(Units::gib)[6] == "r         1.25");
  CHECK(lines(Units::automatic) == std::vector<std::string>{"ID   GAINED SIZE", "r            0 B",
                                                            "r        1,023 B", "r       1.00 KiB",
                                                            "r      -1.50 MiB", "r   1,024.00 KiB",
                                                            "r       1.25 GiB"});
}

TEST_CASE("colour follows the option, NO_COLOR, CLICOLOR_FORCE, CLICOLOR and TERM, in that order") {
  for (const char* no_color : {(const char*)nullptr, "", "1"}) {
    for (const char* force : {(const char*)nullptr, "", "0", "1"}) {
      for (const char* clicolor : {(const char*)nullptr, "0", "1"}) {
        for (const char* term : {(const char*)nullptr, "dumb", "xterm"}) {
          for (bool terminal : {false, true}) {
            const auto is = [](const char* text, std::string_view word) { return text && text == word; };
            const bool expected = is(no_color, "1")                       ? false
                                  : is(force, "1")                        ? true
                                  : is(clicolor, "0") || is(term, "dumb") ? false
                                                                          : terminal;
            CHECK(wants_color({no_color, clicolor, force, term, terminal}) == expected);
          }
        }
      }
    }
  }
}

TEST_CASE("a table colours its verdict and the levels of findings, and nothing else") {
  Report report = with_findings("warning", 1);
  const Report reports[] = {report};
  CHECK(render_table(reports, {}, {.color = true}) ==
        "\x1b[1ma verdict\x1b[0m\n\n\x1b[33mwarning[rule]\x1b[0m finding 0\n");
  report.answered_no = true;
  const Report no[] = {report};
  CHECK(render_table(no, {}, {.quiet = true, .color = true}) == "\x1b[1;31ma verdict\x1b[0m\n");
}
