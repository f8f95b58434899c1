// packed_reference: the fused MoE of a packed NVFP4 layer once more, for shapes that are too large for a
// host. Written from the format's description and sharing no text with the kernels it judges: weights one by
// one from a table of what their codes stand for, sums in doubles, loops as they are written down, a thread
// an element. Values are rounded to the layer's type where the arena holds them and nowhere else:
//
//   fc1 = x @ W13 * global13  (* weight where it applies to the input)
//   activated = silu(gate) * up
//   fc2 = activated @ W2 * global2  (* weight where it does not)          output[t] = sum over slots of fc2
#include "kernels/oracle/arguments.hpp"
#include "kernels/oracle/numbers.cuh"

namespace moeplan {
namespace {

static_assert(kOracleThreads == THREADS, "host and device disagree about the threads of a block");

using Args = PackedReferenceArguments;

inline double io_value(const Args& args, HalfBits bits) {
  return args.is_bfloat16 != 0 ? value_of_bfloat16(bits) : value_of_half(bits);
}

inline HalfBits io_of(const Args& args, double value) {
  return args.is_bfloat16 != 0 ? bfloat16_of(value) : half_of(value);
}

// ---- Weights. ----

// An e2m1 number: a sign and 0, 1/2, 1, 3/2, 2, 3, 4 or 6.
inline double value_of_code(unsigned code) {
  const unsigned twice = code & 7u;  // of the size, up to 1
  const double size = twice < 4 ? 0.5 * twice
                                : (twice == 4   ? 2.0
                                   : twice == 5 ? 3.0
                                   : twice == 6 ? 4.0
                                                : 6.0);
  return (code & 8u) != 0 ? -size : size;
}

// A scale's byte has lost an fp16 number's sign and its seven lowest bits; the number is 128 times the scale.
inline double value_of_scale(unsigned char byte) {
  return value_of_half(static_cast<HalfBits>(byte << 7)) / 128.0;
}

// Of every 64 columns' scales: column 8 * i + j lies j-th among the i-th of eight, these in another order.
inline i64 scale_place(i64 column) {
  const i64 eighth = column / 8;
  const i64 swapped = eighth % 4 == 1 ? eighth + 1 : (eighth % 4 == 2 ? eighth - 1 : eighth);
  return column % 8 * 8 + swapped;
}

// Weight (k, n) of a matrix of `columns` columns, as an fp16 number: five bits of fraction at most.
inline HalfBits decoded(const unsigned char* tiles, const unsigned char* scales, i64 k, i64 n, i64 columns) {
  constexpr i64 kRows = 16;
  const unsigned char* tile =
      tiles + (k / kRows * (columns / kPackedTileColumns) + n / kPackedTileColumns) * kPackedTileBytes;
  // Of the tile's 128 words: eight columns and four pairs of rows choose four that lie together, sixteen
  // columns one of these. In the word eight more rows are the next four bits, eight more columns the next
  // eight, and the odd row of a pair the upper half.
  const i64 row = k % kRows, column = n % kPackedTileColumns;
  const i64 word = (column % 8 * 4 + row % 8 / 2) * 4 + column / 16;
  const i64 nibble = row / 8 + column / 8 % 2 * 2 + row % 2 * 4;
  const unsigned code = static_cast<unsigned>(tile[word * 4 + nibble / 2]) >> nibble % 2 * 4 & 15u;
  const unsigned char scale =
      scales[k / kRows * columns + n / kPackedTileColumns * kPackedTileColumns + scale_place(column)];
  return half_of(value_of_code(code) * value_of_scale(scale));
}

// Both matrices of all experts, in the order of args.weights.
inline void decode(const Args& args, i64 at) {
  const i64 up_down = args.hidden * args.intermediate, all_w13 = args.experts * 2 * up_down;
  const bool is_down = at >= all_w13;
  const i64 columns = is_down ? args.hidden : 2 * args.intermediate;
  const i64 rows = is_down ? args.intermediate : args.hidden;
  const i64 in_matrices = is_down ? at - all_w13 : at, size = rows * columns;
  const i64 expert = in_matrices / size, in_matrix = in_matrices % size;
  const unsigned char* tiles = (is_down ? args.w2 : args.w13) + expert * (size / 2);
  const unsigned char* scales = (is_down ? args.w2_scales : args.w13_scales) + expert * (size / 16);
  args.weights[at] = decoded(tiles, scales, in_matrix / columns, in_matrix % columns, columns);
}

// ---- The steps. `at`: the element, counted over all rows. ----

inline double dot(const Args& args, const HalfBits* row, const HalfBits* column, i64 pitch, i64 count) {
  double sum = 0;
#pragma unroll 8
  for (i64 k = 0; k < count; ++k) sum += io_value(args, row[k]) * value_of_half(column[k * pitch]);
  return sum;
}

// The router's weight of a route, where it applies to this product.
inline double route_weight(const Args& args, i64 route, bool is_input) {
  return (args.weights_on_input != 0) == is_input ? static_cast<double>(args.topk_weights[route]) : 1.0;
}

inline void multiply_fc1(const Args& args, i64 at) {
  const i64 columns = 2 * args.intermediate, route = at / columns, column = at % columns;
  const i64 expert = args.route_experts[route];
  if (expert < 0) return;
  const HalfBits* weights = args.weights + expert * (args.hidden * columns) + column;
  const double sum = dot(args, args.x + route / args.top_k * args.hidden, weights, columns, args.hidden);
  args.fc1[at] = io_of(args, sum * args.w13_globals[expert] * route_weight(args, route, true));
}

inline void activate(const Args& args, i64 at) {
  const i64 route = at / args.intermediate, column = at % args.intermediate;
  if (args.route_experts[route] < 0) return;
  const HalfBits* row = args.fc1 + route * (2 * args.intermediate);
  const double gate = io_value(args, row[column]), up = io_value(args, row[args.intermediate + column]);
  args.activated[at] = io_of(args, gate / (1.0 + exp(-gate)) * up);
}

inline void multiply_fc2(const Args& args, i64 at) {
  const i64 route = at / args.hidden, column = at % args.hidden;
  const i64 expert = args.route_experts[route];
  if (expert < 0) return;
  const i64 size = args.hidden * args.intermediate;
  const HalfBits* weights = args.weights + (2 * args.experts + expert) * size + column;
  const HalfBits* row = args.activated + route * args.intermediate;
  const double sum = dot(args, row, weights, args.hidden, args.intermediate);
  args.fc2[at] = io_of(args, sum * args.w2_globals[expert] * route_weight(args, route, false));
}

inline void sum(const Args& args, i64 at) {
  const i64 token = at / args.hidden, column = at % args.hidden;
  double total = 0;
  for (i64 route = token * args.top_k; route < (token + 1) * args.top_k; ++route)
    if (args.route_experts[route] >= 0) total += io_value(args, args.fc2[route * args.hidden + column]);
  args.output[at] = total;
}

inline void do_step(const Args& args, i64 at) {
  switch (args.step) {
    case PackedReferenceStep::decode:
      return decode(args, at);
    case PackedReferenceStep::multiply_fc1:
      return multiply_fc1(args, at);
    case PackedReferenceStep::activate:
      return activate(args, at);
    case PackedReferenceStep::multiply_fc2:
      return multiply_fc2(args, at);
    case PackedReferenceStep::sum:
      return sum(args, at);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, 4)
    packed_reference(const __grid_constant__ PackedReferenceArguments args) {
  const i64 thread = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 threads = static_cast<i64>(gridDim.x) * blockDim.x;
  const i64 elements = elements_of(args);
  for (i64 at = thread; at < elements; at += threads) do_step(args, at);
}

}  // namespace moeplan
