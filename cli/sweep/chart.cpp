#include "cli/sweep/chart.hpp"

#include <algorithm>

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr std::size_t kMaxPoints = 512;  // of one curve
constexpr std::size_t kMaxCurves = 8;
constexpr std::size_t kMaxStacks = 32;
constexpr std::size_t kMaxParts = 7;  // named; the rest is one more

std::string label_of(const AxisValue& value) {
  return value.is_number ? grouped(value.number) : shortened(value.text, 40);
}

// The values of the axes other than `but` at a point: "block 8, sms 132".
std::string others_of(const Sweep& sweep, std::size_t but, i64 point) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < sweep.axes.size(); ++i) {
    if (i != but && sweep.axes[i].size > 1)
      parts.push_back(
          concat(sweep.axes[i].name, " ", label_of(sweep.axes[i].at(axis_index(sweep.axes, i, point)))));
  }
  return join(parts, ", ");
}

std::size_t place_in(std::vector<std::string>& names, std::string name) {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  names.push_back(std::move(name));
  return names.size() - 1;
}

// A curve over `axis` for each combination of the others; false where there are too many.
bool add_curves(const Sweep& sweep, std::size_t axis, std::span<const SweepPoint> points, Chart& chart) {
  std::vector<i64> places;  // along the axis, of the points shown
  for (const SweepPoint& point : points) places.push_back(axis_index(sweep.axes, axis, point.index));
  std::ranges::sort(places);
  places.erase(std::ranges::unique(places).begin(), places.end());
  if (places.size() > kMaxPoints) return false;
  for (const i64 place : places) chart.points.push_back(label_of(sweep.axes[axis].at(place)));
  std::vector<std::string> names;
  for (const SweepPoint& point : points) {
    const std::size_t curve = place_in(names, others_of(sweep, axis, point.index));
    if (curve >= kMaxCurves) return false;
    if (curve == chart.series.size())
      chart.series.push_back({names[curve], std::vector<std::optional<i64>>(places.size())});
    const auto at =
        std::ranges::lower_bound(places, axis_index(sweep.axes, axis, point.index)) - places.begin();
    if (!point.failed) chart.series[curve].values[static_cast<std::size_t>(at)] = point.bytes;
  }
  return true;
}

// The largest tensors by name; where several arenas are looked at, each with its arena's.
void add_stacks(const Sweep& sweep, std::size_t axis, std::span<const SweepPoint> points,
                std::span<const std::vector<PointArena>> arenas, Chart& chart) {
  std::vector<std::string> names;
  std::vector<std::vector<i64>> bytes;  // of each name, at each point
  std::vector<std::size_t> shown;
  for (std::size_t p = 0; p < points.size(); ++p) {
    if (points[p].failed) continue;
    shown.push_back(p);
    for (const PointArena& arena : arenas[p]) {
      for (const PointArena::Tensor& tensor : arena.tensors) {
        const std::size_t at =
            place_in(names, sweep.arena.empty() ? concat(arena.id, ": ", tensor.name) : tensor.name);
        if (at == bytes.size()) bytes.emplace_back(points.size());
        bytes[at][p] += tensor.bytes;
      }
    }
  }
  if (shown.empty() || shown.size() > kMaxStacks) return;
  std::vector<std::size_t> order(names.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::greater{}, [&](std::size_t i) { return std::ranges::max(bytes[i]); });
  for (const std::size_t p : shown) {
    const std::string others = others_of(sweep, axis, points[p].index);
    const std::string own = label_of(sweep.axes[axis].at(axis_index(sweep.axes, axis, points[p].index)));
    chart.stack_points.push_back(others.empty() ? own : concat(own, ", ", others));
  }
  const bool has_rest = order.size() > kMaxParts + 1;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool is_rest = has_rest && i >= kMaxParts;
    if (!is_rest || i == kMaxParts)
      chart.stacks.push_back({is_rest ? concat(order.size() - kMaxParts, " smaller ones") : names[order[i]],
                              std::vector<std::optional<i64>>(shown.size(), 0)});
    for (std::size_t s = 0; s < shown.size(); ++s)
      *chart.stacks.back().values[s] += bytes[order[i]][shown[s]];
  }
}

}  // namespace

std::optional<Chart> sweep_chart(const Sweep& sweep, std::span<const SweepPoint> points,
                                 std::span<const std::vector<PointArena>> arenas) {
  if (std::ranges::all_of(points, &SweepPoint::failed)) return std::nullopt;
  std::size_t axis = 0;
  for (std::size_t i = 1; i < sweep.axes.size(); ++i) {
    if (sweep.axes[i].size > sweep.axes[axis].size) axis = i;
  }
  Chart chart;
  chart.axis = sweep.axes[axis].name;
  chart.title = concat(sweep.arena.empty() ? "all arenas" : sweep.arena, ": bytes by ", chart.axis);
  if (!add_curves(sweep, axis, points, chart)) return std::nullopt;
  add_stacks(sweep, axis, points, arenas, chart);
  return chart;
}

}  // namespace moeplan
