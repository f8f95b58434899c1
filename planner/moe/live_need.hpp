// What one launch of m live tokens needs of each tensor of a W4A16 plan, as the runtime of its contract
// reckons it: the block from m, the route count from the power-of-two bucket of m or from m itself, the
// direct top-k and small-m kernels; under a lean contract its executor's exact routes and slices. Source:
// docs/soundness.md section 1.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "planner/core/live_range.hpp"
#include "planner/moe/w4a16.hpp"

namespace moeplan {

constexpr int kCoreTensorCount = static_cast<int>(CoreTensor::kernel_workspace) + 1;

// Elements by CoreTensor; -1 where the plan has no such tensor.
using CoreElements = std::array<i64, kCoreTensorCount>;
CoreElements planned_elements(const MoeLayout& layout);

// Whether launches are given an expert map, which sends some experts' routes elsewhere.
enum class ExpertMap { absent, present };

// How the runtime sizes the launches of one plan.
struct LiveRuntime {
  i64 capacity;  // live tokens are 1..capacity
  i64 top_k;
  i64 hidden;
  i64 intermediate;
  i64 fc1_columns;
  i64 experts;  // that the route packer counts
  i64 multiprocessors;
  std::optional<i64> block_size;  // fixed for the plan; else each launch selects its own
  i64 direct_tokens;              // the direct top-k kernel takes up to so many; 0: never
  i64 small_m_tokens;             // the small-m direct kernel takes up to so many; 0: never
  bool lean_executor;             // of Contract
};

// Of a tensor-parallel or expert-parallel W4A16 request and its layout.
LiveRuntime live_runtime(const MoeRequest& request, const MoeLayout& layout, ExpertMap map);

// Whether launches of the plan can come with, or without, an expert map at all.
bool may_have(const MoeRequest& request, ExpertMap map);

// The need of one launch. `planned` decides whether the bucket of m fits or its exact routes are packed;
// tensors that it lacks need nothing.
struct LiveNeed {
  CoreElements elements;
  i64 block_size;
  bool small_m;  // intermediate_cache2 is the small-m direct kernel's
};
LiveNeed live_need(const LiveRuntime& runtime, const CoreElements& planned, i64 tokens);

// Ranges of live tokens, together 1..capacity, within each of which no need falls as tokens rise.
std::vector<LiveRange> rising_ranges(const LiveRuntime& runtime);

}  // namespace moeplan
