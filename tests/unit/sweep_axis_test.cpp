// Axes as the command line writes them, and the grid they span.
#include "cli/sweep/axis.hpp"
#include "planner/core/limits.hpp"
#include "planner/core/text.hpp"
#include "tests/catch.hpp"

using namespace moeplan;

namespace {

std::vector<std::string> values_of(std::string_view text) {
  const auto axis = parse_axis(text);
  REQUIRE(axis);
  std::vector<std::string> values;
  for (i64 i = 0; i < axis->size; ++i) values.push_back(axis->at(i).written());
  return values;
}

std::string error_of(std::string_view text) {
  const auto axis = parse_axis(text);
  REQUIRE(!axis);
  CHECK(axis.error().pointer.empty());
  CHECK(!axis.error().help.empty());
  return concat(axis.error().message, " | ", axis.error().help);
}

using Values = std::vector<std::string>;

}  // namespace

TEST_CASE("an axis lists values and ranges in the order they are written") {
  CHECK(values_of("capacity=512,1024,256") == Values{"512", "1024", "256"});
  CHECK(values_of("capacity=256..8192:x2") == Values{"256", "512", "1024", "2048", "4096", "8192"});
  CHECK(values_of("sms=100..188:+44") == Values{"100", "144", "188"});
  CHECK(values_of("sms=100..187:+44") == Values{"100", "144"});
  CHECK(values_of("tp=3..3:+1,1,2..9:x3") == Values{"3", "1", "2", "6"});
  CHECK(values_of("block=8,unpinned,64") == Values{"8", "unpinned", "64"});
  CHECK(values_of("contract=b12x-36bce2c") == Values{"b12x-36bce2c"});
  CHECK(values_of("/deployment/max_num_batched_tokens=1..3:+1") == Values{"1", "2", "3"});
  CHECK(values_of("/deployment/dtype=bfloat16,float16") == Values{"bfloat16", "float16"});
  // Commas inside brackets and quotes part nothing.
  CHECK(values_of(R"(/deployment/cudagraph_capture_sizes=[1,2],[4])") == Values{"[1,2]", "[4]"});
  CHECK(values_of(R"(/name="a,\"b",c)") == Values{R"("a,\"b")", "c"});
  // Only the usual way of writing a number is one.
  CHECK(parse_axis("/device/sm_count=007")->is_numeric() == false);
  CHECK(parse_axis("/device/sm_count=-7")->is_numeric());
}

TEST_CASE("a doubling range ends at the largest integer without passing it") {
  const Values values = values_of("/x=1..9223372036854775807:x2");
  CHECK(values.size() == 63);
  CHECK(values.back() == "4611686018427387904");
}

TEST_CASE("an axis that cannot be meant is refused with what would work") {
  const auto contains = [](const std::string& text, const char* part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  contains(error_of("capcity=1"), "did you mean \"capacity\"?");
  contains(error_of("zzzzzz=1"), "or a JSON pointer");
  contains(error_of("contract=sparkinfer-de04126"), "did you mean \"sparkinfer-de04125\"?");
  contains(error_of("/a\"b=1"), "unknown axis");
  for (const char* text : {"capacity", "=1"}) contains(error_of(text), "has no values");
  for (const char* text : {"capacity=", "capacity=1,,2", "capacity=1,"})
    contains(error_of(text), "empty value");
  contains(error_of("capacity=1..2"), "has no step");
  contains(error_of("capacity=4..2:+1"), "has no values");
  for (const char* text : {"capacity=1..4:+0", "capacity=1..4:x1", "capacity=1..4:x0", "capacity=0..4:x2"})
    contains(error_of(text), "never ends");
  for (const char* text : {"capacity=1..4:", "capacity=1..4:2", "capacity=1..4:*2", "capacity=..4:x2",
                           "capacity=1..:x2", "capacity=1...4:x2", "capacity=1..9223372036854775808:x2"})
    contains(error_of(text), "is no range");
  contains(error_of("capacity=two"), "takes numbers");
  contains(error_of("tp=unpinned"), "takes numbers");
  contains(error_of("capacity=0"), "must be 1..16777216, got 0");
  contains(error_of("capacity=1..16777217:+1"), "got 16777217");
  contains(error_of("sms=4097"), "must be 1..4096");
}

TEST_CASE("an axis of a trillion values takes the memory of one") {
  const auto axis = parse_axis("/x=0..999999999999:+1");
  REQUIRE(axis);
  CHECK(axis->size == 1'000'000'000'000);
  CHECK(axis->runs.size() == 1);
  CHECK(axis->at(999'999'999'999).number == 999'999'999'999);
}

TEST_CASE("the points of a grid are counted without overflow") {
  const Axis huge = *parse_axis("/x=0..9223372036854775806:+1");
  const Axis two = *parse_axis("/y=1,2");
  constexpr i64 kMost = i64{1} << 62;
  CHECK(grid_points(std::vector{two, two, two}) == 8);
  CHECK(grid_points(std::vector{huge}) == kMost);
  CHECK(grid_points(std::vector{two, huge, huge, two}) == kMost);
  CHECK(parse_axis("/x=0..9223372036854775806:+1,0..9223372036854775806:+1")->size == kMost);
}

TEST_CASE("the last axis of a grid runs fastest, as nested loops do") {
  const std::vector<Axis> axes{*parse_axis("tp=1,2"), *parse_axis("sms=5..7:+1"), *parse_axis("/x=a,b")};
  i64 point = 0;
  for (i64 a = 0; a < 2; ++a) {
    for (i64 b = 0; b < 3; ++b) {
      for (i64 c = 0; c < 2; ++c, ++point) {
        CHECK(axis_index(axes, 0, point) == a);
        CHECK(axis_index(axes, 1, point) == b);
        CHECK(axis_index(axes, 2, point) == c);
      }
    }
  }
  CHECK(point == grid_points(axes));
}
