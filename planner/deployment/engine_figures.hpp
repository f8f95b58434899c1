// The figures an engine prints at start, predicted: one function a figure, for `reconcile` and the budget.
// A printed value stands for half of its last digit either way, so most inputs are ranges.
// Source: docs/memory.md section 8.
#pragma once

#include "planner/core/byte_range.hpp"
#include "planner/deployment/exl3_runtime.hpp"
#include "planner/deployment/kv_cache.hpp"

namespace moeplan {

// "arena=" and "buffers=" print MiB to one decimal: tenths of a MiB, rounded as printf does.
i64 tenths_of_mebibytes(i64 bytes);

// "X GiB" prints two decimals: hundredths of a GiB.
i64 hundredths_of_gibibytes(i64 bytes);

// total * utilization, utilization in parts per million.
ByteRange requested_memory(ByteRange total, i64 utilization_ppm);

// requested - weights - peak activation - non-torch - graph estimate.
ByteRange available_kv_memory(ByteRange requested, ByteRange weights, ByteRange peak_activation,
                              ByteRange non_torch, ByteRange graph_estimate);

// Utilisation whose KV cache equals today's without ("equivalent to", sign -1) or with ("increase to", sign
// +1) the graph estimate: utilization + sign * estimate / total, in parts per million.
struct PpmRange {
  i64 lo;
  i64 hi;
};
PpmRange utilization_with_graphs(i64 utilization_ppm, int sign, ByteRange graph_estimate, ByteRange total);

// |estimated - actual|.
ByteRange graph_pool_difference(ByteRange estimated, ByteRange actual);

// The suggested --kv-cache-memory-bytes: memory - weights - peak activation - non-torch - graphs - 150 MiB.
// `memory` is what was requested, or what was free.
inline constexpr i64 kSuggestedReserve = i64{150} << 20;
ByteRange suggested_kv_memory(ByteRange memory, ByteRange weights, ByteRange peak_activation,
                              ByteRange non_torch, ByteRange graph_actual);

}  // namespace moeplan
