// Arguments of the lean prefill kernels, one text for host and device.
#pragma once

#include "kernels/moe/arguments.hpp"

namespace moeplan {

struct LeanPrefillFc1Arguments {
  const HalfBits* x;  // a row a token
  const unsigned char* w13;
  const HalfBits* gate_suh;
  const HalfBits* up_suh;
  const int* packed_route_indices;
  const int* block_expert_ids;
  const int* packed_route_count;
  HalfBits* gate_up;  // gate | up, a row a route
  int* ticket;        // zero
  i64 routes;         // live
  i64 top_k;
  i64 hidden;
  i64 intermediate;
  i64 experts;          // of the weights; blocks of others are left out
  i64 gate_suh_stride;  // from an expert's row to the next; 0: one row for all
  i64 up_suh_stride;
  StateFactors state_factors;
};

struct LeanActivateArguments {
  const HalfBits* gate_up;
  const HalfBits* intermediate_rotations;  // gate_svh | up_svh | down_suh, a row an expert
  const int* packed_route_indices;
  const int* block_expert_ids;
  const int* packed_route_count;
  HalfBits* activated;  // a row a route
  i64 routes;           // live
  i64 intermediate;
  i64 experts;
};

// One slice of the hidden columns.
struct LeanPrefillFc2Arguments {
  const HalfBits* activated;
  const unsigned char* w2;  // the slice's first Trellis tile
  const int* packed_route_indices;
  const int* block_expert_ids;
  const int* packed_route_count;
  HalfBits* expert_rows;  // the slice's columns, a row a route
  int* ticket;            // zero
  i64 routes;             // live
  i64 hidden;
  i64 intermediate;
  i64 experts;
  i64 columns;    // of the slice
  i64 row_pitch;  // of expert_rows, halves
  StateFactors state_factors;
};

// One slice of the hidden columns: pointers are those of its first column.
struct LeanSumArguments {
  const HalfBits* rows;  // a row a route
  const void* topk_ids;
  const float* topk_weights;
  const int* expert_map;  // marks the routes that were computed; null: all with a valid id
  const HalfBits* down_svh;
  float* output;  // a row a token
  i64 tokens;     // live
  i64 top_k;
  i64 hidden;         // elements, from a row of the output to the next
  i64 columns;        // that are summed
  i64 row_pitch;      // halves, from a route's row to the next
  i64 route_experts;  // ids below this are valid
  i64 experts;        // of the weights
  i64 down_svh_stride;
};

}  // namespace moeplan
