// Geometry of the lean contract's arena: pure constexpr text, compiled by the host compiler and by NVRTC.
// Formulas: docs/contracts.md.
#pragma once

#include "planner/core/integer.hpp"

namespace moeplan {

// Plans of up to so many tokens have the decoding executor's tensors, larger ones those of the prefill
// executor, which takes any number of live tokens.
constexpr i64 kLeanDecodeTokens = 64;
constexpr bool is_lean_decode(i64 capacity) { return capacity <= kLeanDecodeTokens; }

// Rows of a route block of the prefill executor: as many as one multiprocessor has registers for the sums of,
// so that weights are decoded for as many rows at a time.
constexpr i64 kLeanBlock = 160;
// Of the decoding executor, which packs no routes in memory.
constexpr i64 kLeanDecodeBlock = 8;
constexpr i64 lean_route_block(i64 capacity) {
  return is_lean_decode(capacity) ? kLeanDecodeBlock : kLeanBlock;
}

constexpr i64 kLeanSharedLimit = 101'376;  // bytes of shared memory a block of threads may have on sm_120

// FC2 runs in slices of the hidden columns, so that the routes' rows of one slice, not of all, wait for their
// sum. Bytes that those rows may take.
constexpr i64 kLeanDecodeRowsBytes = 6'291'456;
constexpr i64 kLeanPrefillRowsBytes = 25'165'824;

// Columns of a slice: whole blocks of 128, at least one. rows: routes of a full launch.
constexpr i64 lean_slice_columns(i64 capacity, i64 rows, i64 hidden) {
  const i64 bytes = is_lean_decode(capacity) ? kLeanDecodeRowsBytes : kLeanPrefillRowsBytes;
  return min_of(hidden, max_of(bytes / (rows * 2) / 128, 1) * 128);
}

// Elements of expert_rows that a launch of `rows` routes takes, of the `planned` ones: a launch of fewer
// routes than the plan's takes wider slices, and never less than one block of columns.
constexpr i64 lean_live_rows_elements(i64 planned, i64 rows, i64 hidden) {
  return max_of(min_of(rows * hidden, planned), rows * 128);
}

// fp32 elements of the output. Gate and up, halves, lie in it until FC2's rows are summed into it.
constexpr i64 lean_output_elements(i64 tokens, i64 rows, i64 hidden, i64 fc1_columns) {
  return max_of(tokens * hidden, ceil_div(rows * fc1_columns, 2));
}

// Words that the blocks of a prefill launch share: tickets.
constexpr i64 kLeanTickets = 4;

// Threads of a block of the kernels that both executors launch: a warp takes a part of a row.
constexpr i64 kLeanActivateThreads = 64;  // so few start while FC1's are there
constexpr i64 kLeanSumThreads = 128;

}  // namespace moeplan
