// trellis_reference: the fused MoE of a Trellis layer once more, for shapes that are too large for a host.
// Written from the format's description and sharing no text with the kernels it judges: weights bit by bit,
// transforms as sums over all 128 entries, sums in doubles, loops as they are written down, a thread an
// element. Values are rounded to halves where the format says so and nowhere else:
//
//   rotated = fp16(H fp16(fp16(x) * suh) / sqrt 128)        fc1 = fp16(rotated @ W13)
//   g, u = H fc1 / sqrt 128 * svh        activated = fp16(H (silu(g) * u * down_suh) / sqrt 128)
//   fc2 = fp16(activated @ W2)           output[t] = sum over slots of weight * H fc2 / sqrt 128 * down_svh
#include "kernels/oracle/arguments.hpp"
#include "kernels/oracle/numbers.cuh"

namespace moeplan {
namespace {

static_assert(kOracleThreads == THREADS, "host and device disagree about the threads of a block");

using Args = TrellisReferenceArguments;

constexpr double kOneByRootOf128 = 0.088388347648318440550;

inline double input_value(const Args& args, i64 at) {
  const HalfBits bits = args.x[at];
  if (args.is_bfloat16 == 0) return value_of_half(bits);
  return value_of_half(half_of(value_of_bfloat16(bits)));
}

// ---- Weights. ----

// Bit `at` of a tile's stream: 32-bit words one after another, each from its highest bit down. In memory the
// low 16 bits of a word come first.
inline unsigned stream_bit(const HalfBits* tile, i64 at) {
  const i64 word = at / 32, bit = 31 - at % 32;
  return static_cast<unsigned>(tile[2 * word + bit / 16]) >> (bit % 16) & 1u;
}

inline HalfBits weight_of(Codebook codebook, unsigned state) {
  if (codebook == Codebook::mul1) {
    const unsigned hash = state * 0x83DCD12Du;
    const unsigned sum = (hash & 255u) + (hash >> 8 & 255u) + (hash >> 16 & 255u) + (hash >> 24);
    // The product of two halves is exact in a double, and so is the sum.
    return half_of((1024.0 + sum) * value_of_half(0x1EEE) + value_of_half(0xC931));
  }
  unsigned hash = codebook == Codebook::mcg ? state * 0xCBAC1FEDu : state * 89226354u + 64248484u;
  hash = (hash & 0x8FFF8FFFu) ^ 0x3B603B60u;
  return half_of(value_of_half(static_cast<HalfBits>(hash & 0xFFFFu)) +
                 value_of_half(static_cast<HalfBits>(hash >> 16)));
}

// Weight (k, n) of a layer of `outputs` columns whose tiles start at `tiles`.
inline HalfBits decoded(const Args& args, const HalfBits* tiles, i64 k, i64 n, i64 outputs) {
  const HalfBits* tile = tiles + (k / 16 * (outputs / 16) + n / 16) * (16 * args.bits);
  // Of the tile's 256 weights this is the t-th: eight a lane, two neighbours of K, two halves of K, two of N.
  const i64 in_k = k % 16, in_n = n % 16;
  const i64 lane = in_n % 8 * 4 + in_k % 8 / 2;
  const i64 t = lane * 8 + in_n / 8 * 4 + in_k / 8 * 2 + in_k % 2;
  // The stream is a ring: the first weights reach back into its end.
  const i64 length = 256 * args.bits, end = (t + 1) * args.bits;
  unsigned state = 0;
  for (i64 at = end - 16; at < end; ++at) state = state << 1 | stream_bit(tile, at < 0 ? at + length : at);
  return weight_of(args.codebook, state);
}

// All three matrices of all experts, in the order of args.weights.
inline void decode(const Args& args, i64 at) {
  const i64 size = args.hidden * args.intermediate, words = size / 16 * args.bits;
  const i64 matrix = at / size, in_matrix = at % size;
  const bool is_down = matrix >= 2 * args.experts;
  const HalfBits* tiles = is_down ? args.w2 + (matrix - 2 * args.experts) * words : args.w13 + matrix * words;
  const i64 outputs = is_down ? args.hidden : args.intermediate;
  args.weights[at] = decoded(args, tiles, in_matrix / outputs, in_matrix % outputs, outputs);
}

// ---- Transforms. ----

// Entry (i, j) of the Sylvester matrix: -1 to the power of the bits that i and j share.
inline double signed_by(i64 i, i64 j, double value) {
  return __popcll(static_cast<unsigned long long>(i & j)) % 2 != 0 ? -value : value;
}

// Element `at` of the transform, in its block of 128, of element(0), element(1), …
template <class Element>
inline double transformed(i64 at, const Element& element) {
  const i64 first = at / kHadamardBlock * kHadamardBlock;
  double sum = 0;
  for (i64 j = 0; j < kHadamardBlock; ++j) sum += signed_by(at - first, j, element(first + j));
  return sum * kOneByRootOf128;
}

// ---- The steps. `at`: the element, counted over all rows. ----

inline HalfBits rotated_input(const Args& args, i64 token, i64 column, const HalfBits* suh) {
  return half_of(transformed(column, [&](i64 j) {
    return value_of_half(half_of(input_value(args, token * args.hidden + j) * value_of_half(suh[j])));
  }));
}

inline void rotate_inputs(const Args& args, i64 at) {
  const i64 route = at / args.hidden, column = at % args.hidden;
  const i64 expert = args.route_experts[route];
  if (expert < 0) return;
  const i64 token = route / args.top_k;
  args.rotated_gate[at] = rotated_input(args, token, column, args.gate_suh + expert * args.gate_suh_stride);
  args.rotated_up[at] = rotated_input(args, token, column, args.up_suh + expert * args.up_suh_stride);
}

inline double dot(const HalfBits* row, const HalfBits* column, i64 pitch, i64 count) {
  double sum = 0;
#pragma unroll 8
  for (i64 k = 0; k < count; ++k) sum += value_of_half(row[k]) * value_of_half(column[k * pitch]);
  return sum;
}

inline void multiply_fc1(const Args& args, i64 at) {
  const i64 route = at / (2 * args.intermediate), column = at % (2 * args.intermediate);
  const i64 expert = args.route_experts[route];
  if (expert < 0) return;
  const bool is_up = column >= args.intermediate;
  const i64 matrix = (is_up ? args.experts : 0) + expert;
  const HalfBits* weights =
      args.weights + matrix * (args.hidden * args.intermediate) + column % args.intermediate;
  const HalfBits* row = (is_up ? args.rotated_up : args.rotated_gate) + route * args.hidden;
  args.fc1[at] = half_of(dot(row, weights, args.intermediate, args.hidden));
}

inline void activate(const Args& args, i64 at) {
  const i64 route = at / args.intermediate, column = at % args.intermediate;
  const i64 expert = args.route_experts[route];
  if (expert < 0) return;
  const HalfBits* gate = args.fc1 + route * (2 * args.intermediate);
  const HalfBits* up = gate + args.intermediate;
  const HalfBits* scales = args.intermediate_rotations + expert * (3 * args.intermediate);
  const double g =
      transformed(column, [&](i64 j) { return value_of_half(gate[j]); }) * value_of_half(scales[column]);
  const double u = transformed(column, [&](i64 j) { return value_of_half(up[j]); }) *
                   value_of_half(scales[args.intermediate + column]);
  args.activated_values[at] = g / (1.0 + exp(-g)) * u * value_of_half(scales[2 * args.intermediate + column]);
}

inline void rotate_activated(const Args& args, i64 at) {
  const i64 route = at / args.intermediate;
  if (args.route_experts[route] < 0) return;
  const double* row = args.activated_values + route * args.intermediate;
  args.activated[at] = half_of(transformed(at % args.intermediate, [&](i64 j) { return row[j]; }));
}

inline void multiply_fc2(const Args& args, i64 at) {
  const i64 route = at / args.hidden, column = at % args.hidden;
  const i64 expert = args.route_experts[route];
  if (expert < 0) return;
  const HalfBits* weights =
      args.weights + (2 * args.experts + expert) * (args.hidden * args.intermediate) + column;
  args.fc2[at] =
      half_of(dot(args.activated + route * args.intermediate, weights, args.hidden, args.intermediate));
}

inline void sum(const Args& args, i64 at) {
  const i64 token = at / args.hidden, column = at % args.hidden;
  double total = 0;
  for (i64 slot = 0; slot < args.top_k; ++slot) {
    const i64 route = token * args.top_k + slot;
    const i64 expert = args.route_experts[route];
    if (expert < 0) continue;
    const HalfBits* row = args.fc2 + route * args.hidden;
    const double scale = value_of_half(args.down_svh[expert * args.down_svh_stride + column]);
    total += static_cast<double>(args.topk_weights[route]) * scale *
             transformed(column, [&](i64 j) { return value_of_half(row[j]); });
  }
  args.output[at] = total;
}

inline void do_step(const Args& args, i64 at) {
  switch (args.step) {
    case TrellisReferenceStep::decode:
      return decode(args, at);
    case TrellisReferenceStep::rotate_inputs:
      return rotate_inputs(args, at);
    case TrellisReferenceStep::multiply_fc1:
      return multiply_fc1(args, at);
    case TrellisReferenceStep::activate:
      return activate(args, at);
    case TrellisReferenceStep::rotate_activated:
      return rotate_activated(args, at);
    case TrellisReferenceStep::multiply_fc2:
      return multiply_fc2(args, at);
    case TrellisReferenceStep::sum:
      return sum(args, at);
  }
}

}  // namespace

// Left alone, the compiler takes as few registers as spill on some architectures.
extern "C" __global__ void __launch_bounds__(THREADS, 4)
    trellis_reference(const __grid_constant__ TrellisReferenceArguments args) {
  const i64 thread = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 threads = static_cast<i64>(gridDim.x) * blockDim.x;
  const i64 elements = elements_of(args);
  for (i64 at = thread; at < elements; at += threads) do_step(args, at);
}

}  // namespace moeplan
