// Arguments of the lean contract's decoding kernels, one text for host and device. Pointers are the device's.
#pragma once

#include "kernels/moe/lean_arguments.hpp"

namespace moeplan {

struct LeanDecodeFc1Arguments {
  LeanRouting routing;
  const HalfBits* x;  // a row a token
  const unsigned char* w13;
  const HalfBits* gate_suh;
  const HalfBits* up_suh;
  HalfBits* gate_up;  // [route][gate, up][intermediate]
  i64 top_k;
  i64 hidden;
  i64 intermediate;
  i64 gate_suh_stride;  // from an expert's row to the next; 0: one row for all
  i64 up_suh_stride;
  StateFactors state_factors;
};

// One slice of the hidden columns.
struct LeanDecodeFc2Arguments {
  LeanRouting routing;
  const HalfBits* activated;
  const unsigned char* w2;  // the slice's first tile
  HalfBits* expert_rows;    // the slice's columns, a row a route
  i64 hidden;
  i64 columns;    // of the slice, whole blocks of 128
  i64 row_pitch;  // of expert_rows, halves
  StateFactors state_factors;
};

}  // namespace moeplan
