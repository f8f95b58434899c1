// Soundness: does the reserve of a W4A16 plan hold for every number of live tokens, tensor by tensor, and
// which of its bytes can no live count use? Source: docs/soundness.md.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "planner/core/live_range.hpp"
#include "planner/moe/live_need.hpp"

namespace moeplan {

// What a launch does that finds a tensor too small.
enum class Consequence {
  none,
  allocates,      // a fresh allocation every call; raises while a graph is captured
  refused,        // an error at run time
  out_of_bounds,  // nothing checks it
};
inline constexpr std::string_view kConsequenceTexts[] = {
    "", "allocates on every call, raises under graph capture", "refused at run time", "out of bounds"};
constexpr std::string_view text_of(Consequence value) { return kConsequenceTexts[static_cast<int>(value)]; }

struct TensorAudit {
  std::string_view name;
  i64 item_bytes = 1;
  i64 planned = 0;              // elements
  i64 needed = 0;               // the most elements any live count needs
  i64 needed_at = 0;            // the smallest such count
  std::optional<i64> short_at;  // the smallest live count that needs more than is planned
  i64 short_need = 0;           // what that one needs, in elements
  Consequence consequence = Consequence::none;

  i64 slack_bytes() const { return (planned - needed) * item_bytes; }
};

// A block size and the live counts that run with it.
struct LiveBlocks {
  i64 block_size;
  LiveRange tokens;
};

struct MoeAudit {
  ExpertMap map{};
  i64 capacity = 0;
  i64 direct_tokens = 0;   // up to so many the direct top-k kernel may take
  bool exhaustive = true;  // every count was computed; else the ends of ranges in which needs only rise
  std::vector<TensorAudit> tensors;  // in arena order
  std::vector<LiveBlocks> blocks;    // ascending

  // The smallest live count for which some tensor is too small.
  std::optional<i64> counter_example() const;
};

// Live counts that one command computes one by one; beyond, needs are looked at where they peak.
constexpr i64 kExhaustiveTokens = i64{1} << 20;

enum class AuditSearch { exhaustive, peaks };

// `request` says how launches run, `layout` what is reserved: of the same request, or of one whose reserve is
// doubted. A W4A16 request that was planned.
MoeAudit audit_moe(const MoeRequest& request, const MoeLayout& layout, ExpertMap map,
                   AuditSearch search = AuditSearch::peaks);

}  // namespace moeplan
