// How outputs are compared on the device, and how bytes in rows of routes that go nowhere are found.
#include <cmath>

#include "runtime/oracle/half.hpp"
#include "tests/gpu/oracle_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

TEST_CASE("comparing counts errors, what is no number, and words that differ from an earlier run") {
  constexpr i64 kHidden = 128;
  std::vector<float> found(2 * kHidden, 1.0f), first = found;
  std::vector<double> expected(2 * kHidden, 1.0);
  found[3] = 3.0f;
  expected[kHidden] = 0.0;
  found[kHidden + 1] = std::nanf("");
  found[kHidden + 2] = INFINITY;
  const Room<float> device_found(found), device_first(first);
  const Room<double> device_expected(expected);
  const Room<ComparedRow> rows(2);
  launch_oracle(kCompareLaunch, CompareArguments{.step = CompareStep::output,
                                                 .hidden = kHidden,
                                                 .tokens = 2,
                                                 .type = NumberType::float32,
                                                 .found = device_found.get(),
                                                 .first = device_first.get(),
                                                 .expected = device_expected.get(),
                                                 .rows = rows.get()});
  const auto compared = rows.values();
  CHECK(compared[0].squared_error == 4);
  CHECK(compared[0].squared_value == 127 + 9);
  CHECK(compared[0].squared_expected == 128);
  CHECK(compared[0].product == 127 + 3);
  CHECK(compared[0].non_finite == 0);
  CHECK(compared[0].different_words == 1);
  CHECK(compared[1].squared_error == 1);
  CHECK(compared[1].non_finite == 2);
  CHECK(compared[1].different_words == 2);
}

TEST_CASE("outputs of 16 bits are compared as what their bits stand for, every one of them") {
  for (const NumberType type : {NumberType::half, NumberType::bfloat16}) {
    std::vector<HalfBits> found;
    std::vector<double> expected;
    i64 non_finite = 0;
    for (int bits = 0; bits < 1 << 16; ++bits) {
      found.push_back(static_cast<HalfBits>(bits));
      const double value = type == NumberType::half ? oracle::value_of_half(found.back())
                                                    : oracle::value_of_bfloat16(found.back());
      non_finite += !std::isfinite(value);
      // Squares of the largest bf16 numbers are left out of the sums.
      expected.push_back(std::isfinite(value) ? value : 0);
    }
    const Room<HalfBits> device_found(found);
    const Room<double> device_expected(expected);
    const Room<ComparedRow> rows(1);
    launch_oracle(kCompareLaunch, CompareArguments{.step = CompareStep::output,
                                                   .hidden = 1 << 16,
                                                   .tokens = 1,
                                                   .type = type,
                                                   .found = device_found.get(),
                                                   .first = device_found.get(),
                                                   .expected = device_expected.get(),
                                                   .rows = rows.get()});
    const ComparedRow row = rows.values().front();
    CHECK(row.squared_error == 0);
    CHECK(row.squared_value == row.squared_expected);
    CHECK(row.squared_value > 0);
    CHECK(row.non_finite == non_finite);
    CHECK(row.different_words == 0);
  }
}

TEST_CASE(
    "bytes in rows of routes that go nowhere are counted, where no route that is computed has its own") {
  const Room<int> experts(std::vector<int>{0, -1, -1, 0});
  // Rows of 8 bytes: those of routes 1 and 2 are bytes 8 to 23. Rows of 8 and of 4 bytes in one tensor: of
  // these the last route computed has bytes 12 to 15 too.
  std::vector<unsigned char> one(4 * 8, 0x5A), two = one;
  one[0] = one[31] = 1;                      // of routes that are computed
  one[8] = one[23] = 1;                      // of the others
  two[3] = two[12] = two[15] = two[24] = 1;  // in a row of either kind
  two[11] = two[16] = two[17] = 1;           // in neither
  const Room<unsigned char> first(one), second(two);
  const Room<unsigned long long> count(std::vector<unsigned long long>{0});
  launch_oracle(kCompareLaunch, CompareArguments{.step = CompareStep::masked_bytes,
                                                 .tokens = 2,
                                                 .top_k = 2,
                                                 .route_experts = experts.get(),
                                                 .tensors = {{first.get(), 8, 8}, {second.get(), 8, 4}},
                                                 .poison = 0x5A,
                                                 .masked_bytes = count.get()});
  CHECK(count.values() == std::vector<unsigned long long>{5});
}
