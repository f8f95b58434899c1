#include "planner/deployment/engine_figures.hpp"

#include <utility>

#include "planner/core/wide.hpp"

namespace moeplan {
namespace {

// value * scale / unit to the nearest, ties to even.
i64 nearest(i64 value, i64 scale, i64 unit) {
  const Wide scaled = Wide{value} * scale;
  const Wide whole = scaled / unit;
  const Wide twice = 2 * (scaled - whole * unit);
  return static_cast<i64>(whole + ((twice > unit || (twice == unit && (whole & 1))) ? 1 : 0));
}

i64 share(i64 bytes, i64 ppm, bool up) {
  const Wide product = Wide{bytes} * ppm;
  return static_cast<i64>((product + (up ? 999'999 : 0)) / 1'000'000);
}

}  // namespace

i64 tenths_of_mebibytes(i64 bytes) { return nearest(bytes, 10, i64{1} << 20); }

i64 hundredths_of_gibibytes(i64 bytes) { return nearest(bytes, 100, i64{1} << 30); }

ByteRange requested_memory(ByteRange total, i64 utilization_ppm) {
  return {share(total.lo, utilization_ppm, false), share(total.hi, utilization_ppm, true)};
}

ByteRange available_kv_memory(ByteRange requested, ByteRange weights, ByteRange peak_activation,
                              ByteRange non_torch, ByteRange graph_estimate) {
  return requested - weights - peak_activation - non_torch - graph_estimate;
}

PpmRange utilization_with_graphs(i64 utilization_ppm, int sign, ByteRange estimate, ByteRange total) {
  const i64 least = static_cast<i64>(Wide{estimate.lo} * 1'000'000 / max_of(total.hi, 1));
  const i64 most = static_cast<i64>((Wide{estimate.hi} * 1'000'000 + total.lo - 1) / max_of(total.lo, 1));
  return sign < 0 ? PpmRange{utilization_ppm - most, utilization_ppm - least}
                  : PpmRange{utilization_ppm + least, utilization_ppm + most};
}

ByteRange graph_pool_difference(ByteRange estimated, ByteRange actual) {
  const ByteRange difference = estimated - actual;
  if (difference.lo >= 0) return difference;
  if (difference.hi <= 0) return {-difference.hi, -difference.lo};
  return {0, max_of(-difference.lo, difference.hi)};
}

ByteRange suggested_kv_memory(ByteRange memory, ByteRange weights, ByteRange peak_activation,
                              ByteRange non_torch, ByteRange graph_actual) {
  return memory - weights - peak_activation - non_torch - graph_actual - exactly(kSuggestedReserve);
}

}  // namespace moeplan
