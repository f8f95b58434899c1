// Difference of two snapshots: per tensor, per arena, in totals and settings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/policy/snapshot.hpp"

namespace moeplan {

// A value before and after; none where one side has no such thing.
template <class T>
struct Change {
  std::optional<T> before, after;
  bool operator==(const Change&) const = default;
};

// Absent counts as nothing.
constexpr i64 growth_of(const Change<i64>& change) {
  return change.after.value_or(0) - change.before.value_or(0);
}

struct TensorChange {
  std::string arena;
  std::string tensor;  // "" for what lies between and behind tensors
  Change<i64> bytes;
};

struct ArenaChange {
  std::string id;
  Change<i64> bytes;
  Change<i64> cold_keys;
  std::vector<TensorChange> tensors;  // in order of `after`, then what only `before` had; unchanged ones too
};

struct SettingChange {
  std::string pointer;
  Change<std::string> value;
};

struct Difference {
  std::vector<ArenaChange> arenas;
  std::vector<SettingChange> settings;  // changed ones
  Change<i64> moe_bytes, indexer_bytes, late_bytes, runtime_bytes, kv_tokens, kv_bytes_per_token, kv_dcp,
      launch_keys, cold_keys;
  std::optional<i64> kv_tokens_of_growth;  // that the growth of scratch is worth, at the rate of `after`

  i64 growth() const { return growth_of(moe_bytes) + growth_of(indexer_bytes); }
  // Whether anything that is reserved, kept or compiled differs; settings alone are no difference.
  bool differs() const;
};

Difference difference_of(const Snapshot& before, const Snapshot& after);

}  // namespace moeplan
