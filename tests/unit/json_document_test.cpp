#include "cli/io/json_document.hpp"

#include "tests/catch.hpp"

using namespace moeplan;

namespace {

struct Parsed {
  std::string text;
  JsonDocument document;
  Status status;

  explicit Parsed(std::string input) : text(std::move(input)), status(document.parse(text, "file")) {}
  Place place(std::string_view pointer) const { return document.place(document.find_nearest(pointer)); }
};

}  // namespace

TEST_CASE("every value knows its line, column and width") {
  const Parsed parsed("{\n  \"a\": -12.5e3,\n\t\"b\" : [true, \"x\\ty\", null],\n  \"ü\": {\"c\": 7}}");
  REQUIRE(parsed.status);
  CHECK(parsed.place("/a").line == 2);
  CHECK(parsed.place("/a").column == 8);
  CHECK(parsed.place("/a").width == 7);
  CHECK(parsed.place("/b/1").line == 3);
  CHECK(parsed.place("/b/1").column == 15);
  CHECK(parsed.place("/b/1").width == 6);
  CHECK(parsed.place("/ü/c").column == 14);
  CHECK(parsed.document.key_place(parsed.document.find_nearest("/ü")).column == 3);
}

TEST_CASE("pointers lead to values and back, with escapes") {
  const Parsed parsed("{\"a/b\": [{\"m~n\": 1}]}");
  REQUIRE(parsed.status);
  const JsonNode& node = parsed.document.find_nearest("/a~1b/0/m~0n");
  CHECK(node.integer == 1);
  CHECK(parsed.document.pointer(node) == "/a~1b/0/m~0n");
  CHECK(&parsed.document.find_nearest("/absent/deeper") == &parsed.document.root());
}

TEST_CASE("a byte order mark does not move places") {
  const Parsed parsed("\xEF\xBB\xBF{\"a\": 1}");
  REQUIRE(parsed.status);
  CHECK(parsed.document.raw(parsed.document.find_nearest("/a")) == "1");
}

TEST_CASE("integers keep 64 bits, larger ones stay recognisable") {
  const Parsed parsed("[9223372036854775807, -9223372036854775808, 9223372036854775808, 1.0]");
  REQUIRE(parsed.status);
  CHECK(parsed.document.find_nearest("/0").integer == INT64_MAX);
  CHECK(parsed.document.find_nearest("/1").integer == INT64_MIN);
  CHECK(parsed.document.find_nearest("/2").type == JsonType::number);
  CHECK(parsed.document.raw(parsed.document.find_nearest("/2")) == "9223372036854775808");
  CHECK(parsed.document.find_nearest("/3").type == JsonType::number);
}

TEST_CASE("duplicate keys are found in small and in large objects") {
  for (int keys : {2, 100}) {
    std::string text = "{";
    for (int i = 0; i < keys; ++i) text += "\"k" + std::to_string(i) + "\": 0,\n";
    const Parsed parsed(text + "\"k1\": 0}");
    REQUIRE(!parsed.status);
    CHECK(parsed.status.error().code == ErrorCode::duplicate_key);
    CHECK(parsed.document.error_place().line == keys + 1);
    CHECK(parsed.document.error_place().column == 1);
    CHECK(parsed.document.error_place().width == 4);
  }
}

TEST_CASE("what is no JSON is refused where it stops") {
  const std::pair<const char*, i64> kTexts[] = {
      {"{\"a\": }", 7}, {"{\"a\" 1}", 6}, {"[1,2", 5}, {"nul", 4}, {"01", 2}};
  for (const auto& [text, column] : kTexts) {
    const Parsed parsed(text);
    INFO(text);
    REQUIRE(!parsed.status);
    CHECK(parsed.status.error().code == ErrorCode::invalid_json);
    CHECK(parsed.document.error_place().column == column);
    CHECK(parsed.status.error().message.find("json.exception") == std::string::npos);
  }
}

TEST_CASE("set replaces, adds and makes objects on the way") {
  Parsed parsed("{\"a\": {\"b\": 1}, \"list\": [1, 2]}");
  REQUIRE(parsed.status);
  CHECK(parsed.document.set("/a/b", "{\"c\": [3]}", "--set"));
  CHECK(parsed.document.set("/new/deep", "plain words", "--set"));
  CHECK(parsed.document.set("/list/1", "7", "--set"));
  CHECK(parsed.document.find_nearest("/a/b/c/0").integer == 3);
  CHECK(parsed.document.pointer(parsed.document.find_nearest("/a/b/c/0")) == "/a/b/c/0");
  CHECK(parsed.document.text(parsed.document.find_nearest("/new/deep")) == "plain words");
  CHECK(parsed.document.find_nearest("/list/1").integer == 7);
  CHECK(parsed.place("/list/1").source == "--set");
  CHECK(parsed.place("/list/0").source == "file");
  CHECK(!parsed.document.set("/list/2", "7", "--set"));
  CHECK(!parsed.document.set("/a/b/c/0/x", "7", "--set"));
}
