// The reference of the indexer on hand-made calls, and what it says of selections.
#include "runtime/oracle/indexer_reference.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/catch.hpp"

using namespace moeplan;
using namespace moeplan::oracle;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::string problem(std::vector<double> logits, std::vector<std::int32_t> indices,
                    std::vector<float> scores) {
  return selection_problem(logits, 0.01, indices, scores);
}

}  // namespace

TEST_CASE("a logit is the scaled sum of weighted positive products") {
  IndexerCall call{.heads = 2, .rows = 1, .table_width = 2, .page_stride = 64 * 132};
  call.q.assign(2 * 128, 0);
  call.q[0] = 0x38;        // 1 of head 0
  call.q[1] = 0x40;        // 2
  call.q[128] = 0xB8;      // -1 of head 1
  call.q[128 + 2] = 0x01;  // 2^-9
  call.weights = {0.5f, -3.0f};
  call.cache.assign(2 * 64 * 132, 0);
  call.cache[0] = 0x3C;  // token 0: 1.5, 1
  call.cache[1] = 0x38;
  call.cache[128] = 0xC0;  // token 1: -2, 0, 448
  call.cache[130] = 0x7E;
  const float scale = 4.0f;
  for (int token = 0; token < 64; ++token) std::memcpy(call.cache.data() + 64 * 128 + token * 4, &scale, 4);
  call.page_table = {0, -1};
  call.lengths = {66};
  const IndexerLogits logits = indexer_logits(call, 0);
  REQUIRE(logits.values.size() == 128);
  CHECK(logits.values[0] == 4 * 0.5 * 3.5);
  CHECK(logits.values[1] == 4 * -3.0 * 2.875);
  CHECK(logits.magnitudes[1] == 4 * 3.0 * 2.875);
  CHECK(logits.values[2] == 0);
  CHECK(std::isinf(logits.values[64]));  // no page
  CHECK(std::isinf(logits.values[66]));  // behind the row's end
}

TEST_CASE("a selection is accepted when it is the best, in order and padded") {
  const double none = -std::numeric_limits<double>::infinity();
  CHECK(problem({1, 5, 3}, {1, 2}, {5, 3}) == "");
  CHECK(problem({1, 5, none}, {0, 1, -1}, {1, 5, -kInfinity}) == "");
  CHECK(problem({1, 2, 2.001}, {1}, {2}) == "");  // closer than the error
  CHECK(problem({1, NAN, 3}, {1, 2}, {kNan, 3}) == "");
  CHECK(problem({none, none}, {-1}, {-kInfinity}) == "");
}

TEST_CASE("a selection that is wrong says what is wrong with it") {
  const double none = -std::numeric_limits<double>::infinity();
  CHECK(problem({1, 5, 3}, {0, 1}, {1, 5}) != "");            // not the best
  CHECK(problem({1, 5, 3}, {2, 1}, {3, 5}) != "");            // not in order
  CHECK(problem({1, 5, 3}, {1, 1}, {5, 5}) != "");            // twice
  CHECK(problem({1, 5, 3}, {1, 2}, {5, 4}) != "");            // not its score
  CHECK(problem({1, 5, 3}, {1, -1}, {5, -kInfinity}) != "");  // too few
  CHECK(problem({1, none}, {0, 1}, {1, -kInfinity}) != "");   // a token that is not seen
  CHECK(problem({1, 5}, {0, 2}, {1, 5}) != "");               // no token
  CHECK(problem({1, none}, {0, -1}, {1, 0}) != "");           // padded with a score
  CHECK(problem({1, NAN, 3}, {0, 2}, {1, 3}) != "");          // what is no number comes first
}

TEST_CASE("an exact selection takes the lowest indices of equal logits, and what is no number first") {
  const std::vector<float> logits = {0.0f, 2.0f, -0.0f, kNan, -kInfinity, 2.0f, -1.0f};
  CHECK(exact_selection(logits, 1) == std::vector<std::int32_t>{3});
  CHECK(exact_selection(logits, 2) == std::vector<std::int32_t>{1, 3});
  CHECK(exact_selection(logits, 4) == std::vector<std::int32_t>{0, 1, 3, 5});
  CHECK(exact_selection(logits, 8) == std::vector<std::int32_t>{0, 1, 2, 3, 5, 6, -1, -1});
}
