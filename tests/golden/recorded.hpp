// Comparing answers with recorded ones, field for field.
#pragma once

#include "cli/io/batch.hpp"
#include "tests/catch.hpp"
#include "tests/support.hpp"

namespace moeplan::test {

// Every recorded member must be answered alike; further members are ours. Returns the recorded cases.
inline int compare_recorded(const std::string& path) {
  BatchAnswerer answerer;
  const auto cases = read_lines(path);
  for (const Json& recorded : cases) {
    const Json& expected = recorded["response"];
    std::string text;
    answerer.answer(recorded["request"].dump(), 1, text);
    const Json answer = Json::parse(text);
    INFO(text);
    CHECK(answer["id"] == expected["id"]);
    // An error of the same condition is enough: its words are the original's.
    CHECK(answer.contains("error") == expected.contains("error"));
    if (!expected.contains("layout") || !answer.contains("layout")) continue;
    for (const auto& [key, value] : expected["layout"].items()) {
      INFO(key);
      CHECK(answer["layout"][key] == value);
    }
  }
  return static_cast<int>(cases.size());
}

}  // namespace moeplan::test
