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
#include "tests/gpu/gpu.hpp"
#include "tests/indexer_support.hpp"

namespace moeplan::test {

// Numbers of e4m3 below two in size, so that sums stay small, any of them as likely as any other.
inline std::vector<std::uint8_t> random_e4m3(std::mt19937_64& engine, i64 count) {
  std::vector<std::uint8_t> numbers(static_cast<std::size_t>(align_up(count, 8)));
  for (std::size_t i = 0; i < numbers.size(); i += 8) {
    const std::uint64_t word = engine() & 0xBFBF'BFBF'BFBF'BFBFull;
    std::memcpy(numbers.data() + i, &word, 8);
  }
  numbers.resize(static_cast<std::size_t>(count));
  return numbers;
}

// Pages as a cache holds them, one behind the other.
inline std::vector<std::uint8_t> random_pages(std::mt19937_64& engine, i64 pages) {
  std::vector<std::uint8_t> bytes = random_e4m3(engine, pages * kPageBytes);
  for (i64 page = 0; page < pages; ++page) {
    for (i64 token = 0; token < kKernelPageSize; ++token) {
      const float scale = (1.0f + static_cast<float>(engine() % 1024) / 1024) / 64;
      std::memcpy(bytes.data() + page * kPageBytes + kPageKeyBytes + token * 4, &scale, 4);
    }
  }
  return bytes;
}

inline std::vector<float> random_weights(std::mt19937_64& engine, i64 count, bool may_be_negative) {
  std::vector<float> weights(static_cast<std::size_t>(count));
  for (float& weight : weights) {
    weight = static_cast<float>(1 + engine() % 1024) / 1024;
    if (may_be_negative && engine() % 4 == 0) weight = -weight;
  }
  return weights;
}

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
