// What tests and records of the indexer's kernels share: calls that are made up, and plans for them.
#pragma once

#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "planner/core/check.hpp"
#include "planner/indexer/plan_indexer.hpp"
#include "runtime/device/device_values.hpp"
#include "runtime/indexer/indexer_kernels.hpp"
#include "runtime/indexer/random_calls.hpp"
#include "tests/gpu/gpu.hpp"
#include "tests/indexer_support.hpp"

namespace moeplan::test {

// Queues the launches of a call, `launch` one at a time.
template <class Launch>
Status launch_each(const std::vector<IndexerLaunch>& launches, const Launch& launch) {
  for (const IndexerLaunch& each : launches) {
    const Status launched = std::visit([&](const auto& one) -> Status { return launch(one); }, each);
    if (!launched) return launched;
  }
  return Ok{};
}

}  // namespace moeplan::test
