// A report rendered by every format.
#include <nlohmann/json.hpp>

#include "cli/render/render.hpp"
#include "cli/render/text.hpp"
#include "tests/catch.hpp"

using namespace moeplan;

namespace {

Report sample() {
  Report report;
  report.schema = "moeplan.test/1";
  report.verdict = "fits · 2 rows";
  report.facts = {{"name", std::string("a\x1b")}};
  report.totals = {{"bytes", i64{3} << 20}};
  Table table;
  table.key = "rows";
  table.columns = {{"id", "ID"},
                   {"shape", "SHAPE", ColumnKind::text, Audience::programs},
                   {"bytes", "BYTES", ColumnKind::bytes, Audience::everyone, true},
                   {"hint", "", ColumnKind::text, Audience::people}};
  table.people_sort_by = 2;
  table.rows = {{{std::string("small"), std::vector<i64>{1, 2}, i64{1} << 20, std::string("")}, {}},
                {{std::string("large"), std::monostate{}, i64{2} << 20, std::string("at SM cap")}, {}}};
  table.footers = {{{std::string("total"), std::monostate{}, i64{3} << 20, std::monostate{}}, {}}};
  report.tables = {table};
  report.notes = {"a note"};
  return report;
}

}  // namespace

TEST_CASE("a table shows the verdict first, sorts for people and draws bars") {
  const Report reports[] = {sample()};
  const std::string text = render_table(reports, {}, {});
  CHECK(text ==
        "fits · 2 rows\n"
        "\n"
        "ID         BYTES   MiB\n"
        "large  2,097,152  2.00  ██████████  at SM cap\n"
        "small  1,048,576  1.00  █████\n"
        "total  3,145,728  3.00\n"
        "\n"
        "note  a note\n");
}

TEST_CASE("a narrow table loses its bars first, ASCII has no glyphs, quiet is one line") {
  const Report reports[] = {sample()};
  CHECK(render_table(reports, {}, {.width = 34}).find("█") == std::string::npos);
  const std::string ascii = render_table(reports, {}, {.ascii = true});
  CHECK(ascii.starts_with("fits, 2 rows\n"));
  CHECK(ascii.find("##########") != std::string::npos);
  CHECK(std::ranges::all_of(ascii, [](char c) { return static_cast<unsigned char>(c) < 0x80; }));
  CHECK(render_table(reports, {}, {.quiet = true}) == "fits · 2 rows\n");
}

TEST_CASE("JSON has every program's column in declaration order and integers only") {
  const Report reports[] = {sample()};
  const std::string text = render_json(reports, {}, {});
  const auto json = nlohmann::ordered_json::parse(text);
  CHECK(json["schema"] == "moeplan.test/1");
  CHECK(json["name"] == "a\x1b");
  CHECK(json["rows"][0]["id"] == "small");
  CHECK(json["rows"][0]["shape"] == nlohmann::ordered_json::array({1, 2}));
  CHECK(json["rows"][1]["shape"].is_null());
  CHECK(!json["rows"][0].contains("hint"));
  CHECK(json["rows"].size() == 2);
  CHECK(text.find("\x1b") == std::string::npos);
}

TEST_CASE("a problem shows its line with a marker, cut to a window where the line is long") {
  const std::string line = std::string(200, 'a') + "WRONG" + std::string(200, 'b');
  const Problem problem{Error{ErrorCode::wrong_type, "/x", "is wrong", "mend it"},
                        Place{"file", 3, 201, line, 5}};
  const Problem problems[] = {problem};
  const std::string text = render_problems(problems);
  CHECK(text.starts_with("error[wrong_type]: is wrong\n  --> file:3:201   /x\n"));
  const auto shown = text.find("WRONG"), mark = text.find("^^^^^");
  REQUIRE(shown != std::string::npos);
  REQUIRE(mark != std::string::npos);
  const auto column = [&](std::size_t at) {
    return display_width(
        std::string_view(text).substr(text.rfind('\n', at) + 1, at - text.rfind('\n', at) - 1));
  };
  CHECK(column(shown) == column(mark));
  CHECK(text.find("help: mend it") != std::string::npos);
  CHECK(text.find(std::string(100, 'a')) == std::string::npos);
}
