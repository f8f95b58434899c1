// Whether a grid whose blocks wait for each other fits on a GPU at once.
#pragma once

#include <string_view>

#include "planner/core/integer.hpp"
#include "planner/core/result.hpp"
#include "runtime/jit/architecture.hpp"

namespace moeplan {

struct Residency {
  i64 blocks_per_sm = 0;
  i64 sm_count = 0;
  std::string_view limit;  // what keeps one more block off a multiprocessor

  i64 blocks() const { return blocks_per_sm * sm_count; }
};

// What a block takes, and so which resource of a multiprocessor runs out first: "registers", "shared memory",
// "threads" or "blocks". `shared_bytes`: static and dynamic.
std::string_view residency_limit(const Architecture& architecture, i64 registers, i64 threads,
                                 i64 shared_bytes);

// Error `grid_not_resident`: the grid has more blocks than can be resident. A barrier would never open.
Status check_resident(std::string_view kernel, i64 grid, const Residency& residency);

}  // namespace moeplan
