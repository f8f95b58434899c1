// The GPU architectures that kernels are compiled for, and how many blocks of a kernel one multiprocessor
// holds. Source: CUDA C++ Programming Guide, table of technical specifications a compute capability.
#pragma once

#include <span>
#include <string_view>

#include "planner/core/integer.hpp"

namespace moeplan {

struct Architecture {
  std::string_view name;                // "sm_120"
  std::string_view compute_capability;  // "12.0"
  i64 shared_bytes_per_sm;
  i64 shared_bytes_per_block;  // that a block may opt in to
  i64 warps_per_sm;
  i64 blocks_per_sm;
  bool overlaps_launches;  // a launch may start before the one ahead of it ends
  bool has_clusters;       // of blocks that read each other's shared memory
};

std::span<const Architecture> architectures();
// By name, or null.
const Architecture* find_architecture(std::string_view name);
// By compute capability, or null.
const Architecture* architecture_of(std::string_view compute_capability);

// Blocks of `threads` threads that one multiprocessor holds at a time. `shared_bytes`: static and dynamic
// shared memory of a block. 0: not even one.
i64 resident_blocks(const Architecture& architecture, i64 registers, i64 threads, i64 shared_bytes);

}  // namespace moeplan
