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
// so that weights are decoded for as many rows at a time. The decoding one packs no routes in memory.
constexpr i64 kLeanBlock = 160;

// FC2 runs in slices of the hidden columns, so that the routes' rows of one slice, not of all, wait for their
// sum. Bytes that those rows may take.
constexpr i64 kLeanDecodeRowsBytes = 1'310'720;
constexpr i64 kLeanPrefillRowsBytes = 25'165'824;

// Columns of a slice: whole blocks of 128, at least one. rows: routes of a full launch.
constexpr i64 lean_slice_columns(i64 capacity, i64 rows, i64 hidden) {
  const i64 bytes = is_lean_decode(capacity) ? kLeanDecodeRowsBytes : kLeanPrefillRowsBytes;
  return min_of(hidden, max_of(bytes / (rows * 2) / 128, 1) * 128);
}

// fp32 elements of the output. Gate and up of the prefill executor, halves, lie in it until FC2 writes it.
constexpr i64 lean_output_elements(i64 capacity, i64 tokens, i64 rows, i64 hidden, i64 fc1_columns) {
  const i64 elements = tokens * hidden;
  return is_lean_decode(capacity) ? elements : max_of(elements, ceil_div(rows * fc1_columns, 2));
}

// Words that the blocks of a launch share: an arrival counter for each block of 128 output columns, and
// tickets.
constexpr i64 kLeanTickets = 4;
constexpr i64 lean_workspace_words(i64 hidden) { return ceil_div(hidden, 128) + kLeanTickets; }

}  // namespace moeplan
