// What the lean executor's speed is held to.
#pragma once

#include <optional>
#include <vector>

#include "planner/core/text.hpp"
#include "runtime/bench/moe_timing.hpp"

namespace moeplan::test {

// The most microseconds that a layer of configs/glm52-e160.json may take on the GPU of kMoePeerGpu; none: a
// token count is not held to any.
inline std::optional<i64> largest_microseconds(i64 tokens) {
  struct Bar {
    i64 tokens, microseconds;
  };
  constexpr Bar kBars[] = {{1, 30}, {8, 165}, {64, 440}, {512, 800}, {3072, 1900}};
  for (const Bar& bar : kBars)
    if (bar.tokens == tokens) return bar.microseconds;
  return std::nullopt;
}

// A fact for the bar that is missed, and by how much; none: it is held, or there is none.
inline std::optional<EvidenceFact> missed_bar(const MoeTiming& timing) {
  const auto most = largest_microseconds(timing.tokens);
  if (!most || timing.call_ns() <= 1000 * *most) return std::nullopt;
  return EvidenceFact{concat("missed bar: ", name_of(timing)),
                      concat(timing.call_ns(), " ns; at most ", 1000 * *most)};
}

}  // namespace moeplan::test
