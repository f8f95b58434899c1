// Arguments of the kernels that make a layer up and compute what it has to come to: one text for host and
// device. Pointers are the device's. A route is token * top_k + slot.
#pragma once

#include "kernels/moe/arguments.hpp"
#include "planner/core/integer.hpp"
#include "planner/moe/kernel_geometry.hpp"

namespace moeplan {

constexpr i64 kOracleThreads = 256;  // a block

enum class RandomKind : i64 {
  words,     // any 16 bits
  half,      // +-[low, high)
  bfloat16,  // likewise
};

struct RandomFillArguments {
  HalfBits* out;
  i64 count;
  i64 width;  // elements of a row
  i64 pitch;  // from a row's first to the next row's
  i64 seed;   // of another seed come other values
  RandomKind kind;
  double low;
  double high;
};

// One launch does one step, an element a thread.
enum class ReferenceStep : i64 {
  decode,            // trellis tiles to a table of halves
  rotate_inputs,     // x to rotated_gate and rotated_up
  multiply_fc1,      // those to fc1
  activate,          // fc1 to activated_values
  rotate_activated,  // those to activated
  multiply_fc2,      // activated to fc2
  sum,               // fc2 to output
  compare,           // found with output and with first: a row a token
  find_masked_rows   // bytes that a launch left in rows of routes that go nowhere
};

// A row of the output that was found, v, against the reference, e.
struct ComparedRow {
  double squared_error;     // sum of (v - e)^2
  double squared_value;     // of v^2
  double squared_expected;  // of e^2
  double product;           // of v * e
  i64 non_finite;           // v that are no numbers; they count in no sum
  i64 different_words;      // from the row in `first`
};

struct TrellisReferenceArguments {
  ReferenceStep step;
  // The layer and the launch; tables of scales have a row an expert, or with stride 0 one for all.
  i64 hidden;
  i64 intermediate;
  i64 experts;
  i64 bits;
  i64 top_k;
  i64 tokens;
  Codebook codebook;
  i64 is_bfloat16;  // x
  const HalfBits* w13;
  const HalfBits* w2;
  const HalfBits* gate_suh;
  const HalfBits* up_suh;
  const HalfBits* down_svh;
  const HalfBits* intermediate_rotations;
  i64 gate_suh_stride;
  i64 up_suh_stride;
  i64 down_svh_stride;
  const HalfBits* x;
  const int* route_experts;  // -1: the route goes nowhere
  const float* topk_weights;
  // What the steps leave.
  HalfBits* weights;  // [gate, up][experts][hidden][intermediate], then [experts][intermediate][hidden]
  HalfBits* rotated_gate;
  HalfBits* rotated_up;
  HalfBits* fc1;  // gate | up
  double* activated_values;
  HalfBits* activated;
  HalfBits* fc2;
  double* output;
  // Comparing. `first`: null, or an earlier run's.
  const float* found;
  const float* first;
  ComparedRow* rows;
  // Rows of the arena that was run in, poisoned with this byte.
  const unsigned char* rotation_a_gate;
  const unsigned char* rotation_a_up;
  const unsigned char* intermediate_cache2;
  i64 poison;
  unsigned long long* masked_bytes;  // added to
};

}  // namespace moeplan
