// Snapshot: what a baseline keeps of one config, and what two configs are compared by. Plain values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/core/integer.hpp"
#include "planner/core/result.hpp"
#include "planner/deployment/deployed_plans.hpp"
#include "planner/plan.hpp"

namespace moeplan {

struct NamedBytes {
  std::string name;
  i64 bytes;
  bool operator==(const NamedBytes&) const = default;
};

// One arena, or buffers that stand in its place.
struct SnapshotArena {
  std::string id;
  bool is_indexer = false;
  i64 bytes = 0;
  std::vector<NamedBytes> tensors;  // in arena order; padding and tails are the rest
  std::optional<i64> cold_keys;     // of its launches
  bool operator==(const SnapshotArena&) const = default;
};

struct Snapshot {
  std::string config;  // the path its user gave
  std::string name;
  std::string contract;  // of its plans: "a" or "a, b"
  i64 moe_bytes = 0;     // MoE scratch of a rank
  i64 indexer_bytes = 0;
  i64 late_bytes = 0;                     // the most a call allocates after the profile
  std::optional<i64> runtime_bytes;       // of the largest rank: arenas, buffers and parity staging
  std::optional<i64> kv_bytes_per_token;  // of a rank, over its share of the tokens
  std::optional<i64> kv_dcp;              // ranks that share the tokens of a request
  std::optional<i64> kv_tokens;           // that the cache certainly holds
  std::optional<i64> launch_keys;
  std::optional<i64> cold_keys;
  std::vector<SnapshotArena> arenas;
  Environment settings;  // by JSON pointer, as JSON text: what the plans follow from
  bool operator==(const Snapshot&) const = default;

  i64 scratch_bytes() const { return moe_bytes + indexer_bytes; }
};

// One planned request as an arena.
SnapshotArena arena_of(const std::string& id, bool is_indexer, const ArenaLayout& arena, i64 total_bytes);

// Tokens that `bytes` of a rank are worth in the KV cache of `snapshot`; none where its cache is not known.
std::optional<i64> tokens_worth(const Snapshot& snapshot, i64 bytes);

// Fills in what follows from the deployment alone: KV cache, launch keys and parity staging, where they can
// be known.
void add_deployment_figures(Snapshot& snapshot, const Deployment& deployment);

}  // namespace moeplan
