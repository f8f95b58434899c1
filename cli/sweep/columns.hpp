// The columns of a sweep: one row each in the table of columns.cpp. A further one is a further row there.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/sweep/point_planner.hpp"
#include "planner/core/report.hpp"
#include "planner/deployment/kv_cache.hpp"

namespace moeplan {

// What columns are computed from.
struct SweepView {
  const Sweep& sweep;
  std::optional<SweepPoint> configured;  // the config as it is; none where it cannot be planned
  std::optional<KvCache> kv;             // none where the config does not state it
  i64 most_bytes = 0;                    // over the rows shown
};

struct SweepColumn {
  std::string_view key;
  std::string_view title;
  std::string_view doc;
  ColumnKind kind = ColumnKind::count;
  bool less_is_better = false;  // such columns may stand in --pareto
  // For programs; null: people alone see the column.
  Cell (*cell)(const SweepPoint&, const SweepView&) = nullptr;
  // For people; null: they see the cell.
  std::string (*text)(const SweepPoint&, const SweepView&) = nullptr;
  bool Sweep::*needs = nullptr;  // what the sweep has to find out for it
};
std::span<const SweepColumn> sweep_columns();

// The columns of that list, or an error that says what there is. "" is the usual ones: for one arena those
// of its blocks too where they are swept.
Result<std::vector<const SweepColumn*>> choose_columns(std::string_view list, const Sweep& sweep);

// The column of that key, or an error with what is meant.
Result<const SweepColumn*> find_column(std::string_view key);

// The value of an axis at a point.
Cell axis_cell(const Sweep& sweep, std::size_t axis, i64 point);

}  // namespace moeplan
