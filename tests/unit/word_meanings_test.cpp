// What words in brackets mean: one meaning each, in help and in SARIF alike.
#include "cli/word_meanings.hpp"

#include <set>

#include "cli/render/render.hpp"
#include "tests/catch.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;

TEST_CASE("every word of an error, a finding or a rule is there once, with a meaning") {
  std::set<std::string_view> seen;
  for (const WordMeaning& row : word_meanings()) {
    INFO(row.word);
    CHECK(seen.insert(row.word).second);
    CHECK_FALSE(row.meaning.empty());
    CHECK(meaning_of_word(row.word) == &row);
    CHECK((row.rule != nullptr) == (row.kind == WordKind::policy_rule));
  }
  CHECK(meaning_of_word("no-such-word") == nullptr);
}

TEST_CASE("SARIF describes a rule as help does, those of an EXL3 deployment among them") {
  for (const char* word : {"not-timed", "exl3-decode-order", "MP003"}) {
    Report report;
    report.findings.push_back({word, "error", "", "message", ""});
    const Json sarif = Json::parse(render_sarif({&report, 1}, {}, {}));
    const Json& rule = sarif["runs"][0]["tool"]["driver"]["rules"][0];
    CHECK(rule["id"] == word);
    CHECK(rule["shortDescription"]["text"] == meaning_of_word(word)->meaning);
  }
  CHECK(meaning_of_word("exl3-decode-order")->meaning == "fires unless MIN_M is at most MAX_M");
}
