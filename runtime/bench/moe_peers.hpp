// How long public kernels took for a fused MoE layer, as recorded: the one table of them.
#pragma once

#include <string_view>
#include <vector>

#include "planner/core/integer.hpp"

namespace moeplan {

// Of a rank's layer.
struct MoeShape {
  i64 hidden = 0;
  i64 intermediate = 0;
  i64 experts = 0;
  i64 top_k = 0;
  i64 bits = 0;  // a weight
  bool operator==(const MoeShape&) const = default;
};

inline constexpr std::string_view kMoePeerGpu = "NVIDIA H200";

struct MoePeer {
  std::string_view name;
  std::string_view reads;  // what it decodes, or why that is another amount of work than ours
  i64 bits = 0;            // 0: it stands beside layers of any bits, of which it reads none
  bool operator==(const MoePeer&) const = default;
};

struct MoePeerTime {
  MoePeer peer;
  i64 tokens = 0;
  i64 nanoseconds = 0;  // a layer
};

// What was recorded for the layer with so many live tokens; none: nothing was.
std::vector<MoePeerTime> moe_peers(const MoeShape& shape, i64 tokens);

}  // namespace moeplan
