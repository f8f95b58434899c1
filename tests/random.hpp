// The same random numbers in every run.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <random>

#include "planner/core/integer.hpp"

namespace moeplan::test {

struct Random {
  std::mt19937_64 engine{93};
  i64 in(i64 low, i64 high) {
    return low + static_cast<i64>(engine() % static_cast<std::uint64_t>(high - low + 1));
  }
  i64 of(std::initializer_list<i64> values) {
    return *(values.begin() + static_cast<std::ptrdiff_t>(engine() % values.size()));
  }
};

}  // namespace moeplan::test
