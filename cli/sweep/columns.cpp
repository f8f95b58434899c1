#include "cli/sweep/columns.hpp"

#include <algorithm>

#include "cli/render/text.hpp"
#include "planner/core/did_you_mean.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

using Point = const SweepPoint&;
using View = const SweepView&;

std::optional<i64> change_of(Point p, View v) {
  if (!v.configured) return std::nullopt;
  return p.bytes - v.configured->bytes;
}

// What the change leaves to the KV cache, or takes from it.
std::optional<i64> tokens_of(Point p, View v) {
  const auto change = change_of(p, v);
  if (!change || !v.kv) return std::nullopt;
  return tokens_of_bytes(*v.kv, -*change);
}

std::string with_sign(i64 number, std::string text) { return number > 0 ? concat("+", text) : text; }

// Two decimals without separators, so that programs can read it.
std::string plain_mebibytes(i64 bytes) {
  std::string text = mebibytes(bytes);
  std::erase(text, ',');
  return text;
}

std::string spark_of(i64 value, i64 most) {
  constexpr std::string_view kLevels[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  if (most <= 0) return "";
  // Large values are shortened first so that the product fits.
  while (most > i64{1} << 56) {
    most >>= 1;
    value >>= 1;
  }
  return std::string(kLevels[min_of(value * 8 / most, 7)]);
}

constexpr SweepColumn kColumns[] = {
    {.key = "bytes",
     .title = "BYTES",
     .doc = "of the arenas looked at",
     .less_is_better = true,
     .cell = [](Point p, View) { return Cell(p.bytes); }},
    {.key = "mib",
     .title = "MiB",
     .doc = "the same in MiB",
     .cell = [](Point p, View) { return Cell(plain_mebibytes(p.bytes)); },
     .text = [](Point p, View) { return mebibytes(p.bytes); }},
    {.key = "change_bytes",
     .title = "CHANGE",
     .doc = "against the configured point",
     .less_is_better = true,
     .cell = [](Point p, View v) { return optional_cell(change_of(p, v)); },
     .text =
         [](Point p, View v) {
           const auto change = change_of(p, v);
           return change ? with_sign(*change, grouped(*change)) : std::string();
         }},
    {.key = "change_mib",
     .title = "CHANGE MiB",
     .doc = "the same in MiB, for people",
     .text =
         [](Point p, View v) {
           const auto change = change_of(p, v);
           return change ? with_sign(*change, mebibytes(*change)) : std::string();
         }},
    {.key = "kv_tokens",
     .title = "KV TOKENS",
     .doc = "what that change is worth in tokens of the KV cache",
     .cell = [](Point p, View v) { return optional_cell(tokens_of(p, v)); },
     .text =
         [](Point p, View v) {
           const auto tokens = tokens_of(p, v);
           return tokens ? with_sign(*tokens, grouped(*tokens)) : std::string();
         }},
    {.key = "launches",
     .title = "LAUNCHES/LAYER",
     .doc = "of the experts, for a full step",
     .less_is_better = true,
     .cell = [](Point p, View) { return optional_cell(p.launches); }},
    {.key = "rows",
     .title = "ROWS/LAUNCH",
     .doc = "routed rows of the largest of them",
     .cell = [](Point p, View) { return optional_cell(p.rows_per_launch); }},
    {.key = "slots",
     .title = "ROUTE SLOTS",
     .doc = "of the one arena looked at",
     .less_is_better = true,
     .cell = [](Point p, View) { return optional_cell(p.route_slots); }},
    {.key = "reachable",
     .title = "REACHABLE",
     .doc = "whether a launch within the capacity selects the pinned block by itself",
     .kind = ColumnKind::text,
     .cell = [](Point p, View) { return p.block_reachable ? Cell(*p.block_reachable) : Cell(); }},
    {.key = "sound",
     .title = "SOUND",
     .doc = "whether every number of live tokens has what it needs, as moeplan audit finds",
     .kind = ColumnKind::text,
     .cell = [](Point p, View) { return p.sound ? Cell(*p.sound) : Cell(); },
     .needs = &Sweep::wants_sound},
    {.key = "cold_keys",
     .title = "COLD KEYS",
     .doc = "kernels that compile mid-serve, as moeplan launches counts them",
     .less_is_better = true,
     .cell = [](Point p, View) { return optional_cell(p.cold_keys); },
     .needs = &Sweep::wants_cold_keys},
    {.key = "bar",
     .title = "",
     .doc = "the share of the largest, for people",
     .kind = ColumnKind::text,
     .text = [](Point p, View v) { return spark_of(p.bytes, v.most_bytes); }},
};

constexpr std::string_view kUsual[] = {"bytes",     "mib",      "change_bytes", "change_mib",
                                       "kv_tokens", "launches", "rows",         "bar"};
constexpr std::string_view kUsualOfBlocks[] = {"bytes",     "mib",   "change_bytes", "change_mib",
                                               "kv_tokens", "slots", "reachable",    "bar"};

std::vector<std::string_view> split_list(std::string_view list) {
  std::vector<std::string_view> items;
  for (;;) {
    const std::size_t comma = list.find(',');
    items.push_back(list.substr(0, comma));
    if (comma == std::string_view::npos) return items;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

std::span<const SweepColumn> sweep_columns() { return kColumns; }

Result<const SweepColumn*> find_column(std::string_view key) {
  std::vector<std::string_view> keys;
  for (const SweepColumn& column : kColumns) {
    if (column.key == key) return &column;
    keys.push_back(column.key);
  }
  const auto near = did_you_mean(key, keys);
  return Error{ErrorCode::invalid_value, "", concat("unknown column \"", shortened(key, 60), "\""),
               near ? concat("did you mean \"", *near, "\"?") : concat("there are: ", join(keys, ", "))};
}

Result<std::vector<const SweepColumn*>> choose_columns(std::string_view list, const Sweep& sweep) {
  std::vector<const SweepColumn*> columns;
  if (!list.empty()) {
    for (const std::string_view key : split_list(list)) {
      const auto column = find_column(key);
      if (!column) return column.error();
      if (std::ranges::find(columns, *column) != columns.end())
        return Error{ErrorCode::invalid_value, "", concat("column ", key, " is listed twice"),
                     "list it once"};
      columns.push_back(*column);
    }
    return columns;
  }
  const bool sweeps_block =
      std::ranges::any_of(sweep.axes, [](const Axis& axis) { return axis.kind == AxisKind::block; });
  for (const std::string_view key : sweeps_block ? std::span<const std::string_view>(kUsualOfBlocks)
                                                 : std::span<const std::string_view>(kUsual)) {
    columns.push_back(*find_column(key));
  }
  return columns;
}

Cell axis_cell(const Sweep& sweep, std::size_t axis, i64 point) {
  const AxisValue value = sweep.axes[axis].at(axis_index(sweep.axes, axis, point));
  return value.is_number ? Cell(value.number) : Cell(std::string(value.text));
}

}  // namespace moeplan
