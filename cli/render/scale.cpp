#include "cli/render/scale.hpp"

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr i64 kMaxSteps = 5;

struct Unit {
  i64 bytes;
  std::string_view name;
};
constexpr Unit kUnits[] = {{i64{1} << 50, "PiB"}, {i64{1} << 40, "TiB"}, {i64{1} << 30, "GiB"},
                           {i64{1} << 20, "MiB"}, {i64{1} << 10, "KiB"}, {1, "B"}};

}  // namespace

i64 Scale::position(i64 value, i64 length) const {
  i64 whole = top();
  // Large values are shortened first so that the product fits.
  while (whole > i64{1} << 48) {
    whole >>= 1;
    value >>= 1;
  }
  return value * length / whole;
}

std::string Scale::label(i64 value) const { return concat(grouped(value / unit), " ", unit_name); }

Scale scale_for(i64 largest) {
  const Unit* unit = kUnits;
  while (unit->bytes > 1 && largest < kMaxSteps * unit->bytes) ++unit;
  const i64 units = max_of(ceil_div(largest, unit->bytes), 1);
  i64 step = 1;
  // 1, 2, 5, 10, 20, 50, …
  for (i64 turn = 0; ceil_div(units, step) > kMaxSteps; ++turn)
    step = turn % 3 == 1 ? step / 2 * 5 : step * 2;
  return {step * unit->bytes, ceil_div(units, step), unit->bytes, unit->name};
}

i64 largest_value(const std::vector<ChartSeries>& series) {
  i64 largest = 0;
  for (const ChartSeries& one : series) {
    for (const auto& value : one.values) largest = max_of(largest, value.value_or(0));
  }
  return largest;
}

}  // namespace moeplan
