// Made-up values of an indexer's calls, for tests, validation and benches alike.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "planner/indexer/kernel_geometry.hpp"

namespace moeplan {

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

// Of heads: up to one in size, none of them zero. `may_be_negative`: every fourth is, as the engine draws.
inline std::vector<float> random_weights(std::mt19937_64& engine, i64 count, bool may_be_negative) {
  std::vector<float> weights(static_cast<std::size_t>(count));
  for (float& weight : weights) {
    weight = static_cast<float>(1 + engine() % 1024) / 1024;
    if (may_be_negative && engine() % 4 == 0) weight = -weight;
  }
  return weights;
}

}  // namespace moeplan
