// Arguments of the kernels that make a layer up and compute what it has to come to: one text for host and
// device. Pointers are the device's. A route is token * top_k + slot.
#pragma once

#include "kernels/moe/arguments.hpp"
#include "planner/core/integer.hpp"
#include "planner/moe/kernel_geometry.hpp"

namespace moeplan {

constexpr i64 kOracleThreads = 256;  // a block

enum class RandomKind : i64 {
  words,        // any 16 bits
  half,         // +-[low, high)
  bfloat16,     // likewise
  scale_bytes,  // two bytes of [low, high), one of 16 of them zero
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
enum class TrellisReferenceStep : i64 {
  decode,            // trellis tiles to a table of halves
  rotate_inputs,     // x to rotated_gate and rotated_up
  multiply_fc1,      // those to fc1
  activate,          // fc1 to activated_values
  rotate_activated,  // those to activated
  multiply_fc2,      // activated to fc2
  sum                // fc2 to output
};

struct TrellisReferenceArguments {
  TrellisReferenceStep step;
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
};

// Elements of the step, all rows together.
constexpr i64 elements_of(const TrellisReferenceArguments& args) {
  const i64 routes = args.tokens * args.top_k;
  switch (args.step) {
    case TrellisReferenceStep::decode:
      return 3 * args.experts * args.hidden * args.intermediate;
    case TrellisReferenceStep::rotate_inputs:
    case TrellisReferenceStep::multiply_fc2:
      return routes * args.hidden;
    case TrellisReferenceStep::multiply_fc1:
      return routes * (2 * args.intermediate);
    case TrellisReferenceStep::activate:
    case TrellisReferenceStep::rotate_activated:
      return routes * args.intermediate;
    case TrellisReferenceStep::sum:
      return args.tokens * args.hidden;
  }
  return 0;
}

enum class PackedReferenceStep : i64 {
  decode,        // packed tiles to a table of halves
  multiply_fc1,  // x to fc1
  activate,      // fc1 to activated
  multiply_fc2,  // activated to fc2
  sum            // fc2 to output
};

struct PackedReferenceArguments {
  PackedReferenceStep step;
  i64 hidden;
  i64 intermediate;
  i64 experts;
  i64 top_k;
  i64 tokens;
  i64 is_bfloat16;  // all 16-bit numbers but `weights`, which are halves
  i64 weights_on_input;
  const unsigned char* w13;  // as the kernels have them
  const unsigned char* w2;
  const unsigned char* w13_scales;
  const unsigned char* w2_scales;
  const double* w13_globals;  // without the powers of two that the kernels' have in them
  const double* w2_globals;
  const HalfBits* x;
  const int* route_experts;  // -1: the route goes nowhere
  const float* topk_weights;
  // What the steps leave.
  HalfBits* weights;  // [experts][hidden][gate | up], then [experts][intermediate][hidden]
  HalfBits* fc1;      // gate | up
  HalfBits* activated;
  HalfBits* fc2;
  double* output;
};

constexpr i64 elements_of(const PackedReferenceArguments& args) {
  const i64 routes = args.tokens * args.top_k;
  switch (args.step) {
    case PackedReferenceStep::decode:
      return 3 * args.experts * args.hidden * args.intermediate;
    case PackedReferenceStep::multiply_fc1:
      return routes * (2 * args.intermediate);
    case PackedReferenceStep::activate:
      return routes * args.intermediate;
    case PackedReferenceStep::multiply_fc2:
      return routes * args.hidden;
    case PackedReferenceStep::sum:
      return args.tokens * args.hidden;
  }
  return 0;
}

// ---- What a launch left. ----

// A row of the output that was found, v, against the reference, e.
struct ComparedRow {
  double squared_error;     // sum of (v - e)^2
  double squared_value;     // of v^2
  double squared_expected;  // of e^2
  double product;           // of v * e
  i64 non_finite;           // v that are no numbers; they count in no sum
  i64 different_words;      // from the row in `first`
};

enum class NumberType : i64 { half, bfloat16, float32 };

// A tensor with a row a route, and where two phases have rows of their own there, these too.
struct RouteRows {
  const unsigned char* bytes = nullptr;
  i64 row_bytes = 0;  // 0: no tensor
  i64 other_row_bytes = 0;
  constexpr i64 longest() const { return max_of(row_bytes, other_row_bytes); }
};
constexpr int kMostRouteTensors = 4;

enum class CompareStep : i64 {
  output,       // found with expected and with first: a row a token
  masked_bytes  // that a launch left in rows of routes that go nowhere
};

struct CompareArguments {
  CompareStep step;
  i64 hidden;
  i64 tokens;
  i64 top_k;
  NumberType type;  // of found and first
  const void* found;
  const void* first;  // null, or an earlier run's
  const double* expected;
  ComparedRow* rows;
  const int* route_experts;  // -1: the route goes nowhere
  RouteRows tensors[kMostRouteTensors];
  i64 poison;                        // the byte that they held
  unsigned long long* masked_bytes;  // added to
};

constexpr i64 elements_of(const CompareArguments& args) {
  if (args.step == CompareStep::output) return args.tokens;
  i64 longest = 0;
  for (const RouteRows& rows : args.tensors) longest = max_of(longest, rows.longest());
  return args.tokens * args.top_k * longest;
}

}  // namespace moeplan
