// Small pure functions: numbers and texts.
#include "cli/render/text.hpp"
#include "cli/io/decimal.hpp"
#include "cli/io/json_writer.hpp"
#include "cli/io/utf8.hpp"
#include "planner/core/did_you_mean.hpp"
#include "planner/core/python_int.hpp"
#include "planner/core/text.hpp"
#include "tests/catch.hpp"

using namespace moeplan;

TEST_CASE("MiB are rounded half up from exact bytes") {
  CHECK(mebibytes(0) == "0.00");
  CHECK(mebibytes(5242) == "0.00");
  CHECK(mebibytes(5243) == "0.01");
  CHECK(mebibytes(1048575) == "1.00");
  CHECK(mebibytes(-68'062'208) == "-64.91");
  CHECK(mebibytes(-1) == "0.00");
  CHECK(mebibytes(INT64_MAX) == "8,796,093,022,208.00");
}

TEST_CASE("grouped digits") {
  CHECK(grouped(0) == "0");
  CHECK(grouped(999) == "999");
  CHECK(grouped(1000) == "1,000");
  CHECK(grouped(-1234567) == "-1,234,567");
}

TEST_CASE("byte sizes and ratios are exact") {
  CHECK(parse_byte_size("95.01 GiB") == 102'016'210'698);
  CHECK(parse_byte_size("512MiB") == 512 << 20);
  CHECK(parse_byte_size("7 B") == 7);
  CHECK(!parse_byte_size("7"));
  CHECK(!parse_byte_size("7 GB"));
  CHECK(!parse_byte_size("1e3 MiB"));
  CHECK(!parse_byte_size("9999999999 TiB"));
  CHECK(scaled_decimal("0.92", 1'000'000) == 920'000);
  CHECK(scaled_decimal("1", 1'000'000) == 1'000'000);
  CHECK(!scaled_decimal("", 1));
  CHECK(!scaled_decimal(".5", 1));
  CHECK(!scaled_decimal("5.", 1));
  CHECK(!scaled_decimal("-1", 1));
  CHECK(!scaled_decimal("0.1234567890", 1));
}

TEST_CASE("integers are read as Python reads them") {
  const std::pair<const char*, i64> kGood[] = {{"64", 64},
                                               {" 64\n", 64},
                                               {"+6_4", 64},
                                               {"-7", -7},
                                               {"007", 7},
                                               {"\x1f"
                                                "8",
                                                8},
                                               {"0_0", 0},
                                               {"99999999999999999999999", kPythonIntLimit}};
  for (const auto& [text, value] : kGood) {
    INFO(text);
    CHECK(parse_python_int(text) == value);
  }
  for (const char* text : {"", " ", "1e4", "0x10", "1__0", "_1", "1_", "+ 5", "--5", "1.0", "5 5"}) {
    INFO(text);
    CHECK(!parse_python_int(text));
  }
}

TEST_CASE("a near word is suggested and a far one is not") {
  constexpr std::string_view kWords[] = {"max_num_seqs", "max_num_batched_tokens", "tp"};
  CHECK(did_you_mean("max_num_batch_tokens", kWords) == "max_num_batched_tokens");
  CHECK(did_you_mean("MAX_NUM_SEQS", kWords) == "max_num_seqs");
  CHECK(did_you_mean("pt", kWords) == "tp");
  CHECK(!did_you_mean("hidden_size", kWords));
  CHECK(!did_you_mean(std::string(10'000, 'a'), kWords));
}

TEST_CASE("JSON texts are escaped and always UTF-8") {
  std::string out;
  JsonWriter(out).value("a\"\\\n\x01\x7f\xff ü");
  CHECK(out == "\"a\\\"\\\\\\n\\u0001\\u007f\\ufffd ü\"");
}

TEST_CASE("printable texts hold no control bytes, C1 included") {
  CHECK(printable("ok ü") == "ok ü");
  CHECK(printable("\x1b[0m\xff\xc2\x9b") == "\\x1b[0m\\xff\\xc2\\x9b");
}

TEST_CASE("overlong, surrogate and too large UTF-8 is refused") {
  CHECK(utf8_length("\xc3\xbc") == 2);
  CHECK(utf8_length("\xf0\x9f\x98\x80") == 4);
  for (const char* text : {"\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\x80", "\xc3"})
    CHECK(utf8_length(text) == 0);
}

TEST_CASE("joining and concatenating") {
  CHECK(concat("a", 1, std::string("b"), i64{-2}) == "a1b-2");
  CHECK(join(std::vector<int>{1, 2, 3}, ", ", " or ") == "1, 2 or 3");
}
