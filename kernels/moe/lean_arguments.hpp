// Arguments of the kernels that the lean contract's executors share, one text for host and device. Pointers
// are the device's.
#pragma once

#include "kernels/moe/arguments.hpp"

namespace moeplan {

// Where a launch's routes go.
struct LeanRouting {
  const void* topk_ids;   // a route each
  const int* expert_map;  // null: none
  i64 routes;             // live
  i64 id_bytes;           // 4 or 8
  i64 route_experts;      // ids below this are valid
  i64 experts;            // of the weights; other routes are left out
};

struct LeanActivateArguments {
  LeanRouting routing;
  const HalfBits* gate_up;                 // [route][gate, up][intermediate]
  const HalfBits* intermediate_rotations;  // gate_svh | up_svh | down_suh, a row an expert
  HalfBits* activated;                     // [route][intermediate]
  i64 intermediate;
};

// One slice of the hidden columns.
struct LeanSumArguments {
  LeanRouting routing;
  const HalfBits* rows;  // the slice's columns, a row a route
  const float* topk_weights;
  const HalfBits* down_svh;  // the slice's first column
  float* output;             // likewise; a row a token
  i64 tokens;                // live
  i64 top_k;
  i64 hidden;
  i64 columns;    // of the slice, whole blocks of 128
  i64 row_pitch;  // of rows, halves
  i64 down_svh_stride;
};

}  // namespace moeplan
