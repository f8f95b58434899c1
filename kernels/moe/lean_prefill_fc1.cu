// lean_prefill_fc1: gate and up of a lean prefill launch. For every valid route r, with its token t, its
// expert e and H the 128-point Hadamard transform of each block of 128:
//
//   gate_up[r] = fp16(sqrt 2 * (fp16(H fp16(fp16(x[t]) * suh[e]) / 16) @ W13[e]))     gate, then up
//
// which is the product with rows rotated by H / sqrt 128. Rows are rotated on their way into shared memory:
// no rotated row is ever stored.
#include "kernels/moe/lean_multiply.cuh"
#include "kernels/moe/lean_prefill_arguments.hpp"
#include "kernels/moe/lean_rotation.cuh"

namespace moeplan {
namespace {

// Rows of x times suh, rotated: a warp makes 8 rows of a step at a time.
class RotatedRows {
 public:
  RotatedRows(const HalfBits* x, const HalfBits* suh, i64 hidden)
      : x_(x + lane_id() % 4 * 8), suh_(suh + lane_id() % 4 * 8), hidden_(hidden) {}

  struct Flight {
    RotationChunks x, suh;
  };

  template <int Live>
  Flight start(int step, int part) const {
    Flight flight{};
    if (step < 0 || !has_unit<Live>(part)) return flight;
    const int token = shared_rows()[8 * unit_of(part) + lane_id() / 4];
    // Padding multiplies whatever row: its sums are not stored.
    flight.x = load_chunks(x_ + max_of(token, 0) * hidden_ + step * kHadamardBlock);
    flight.suh = load_chunks(suh_ + step * kHadamardBlock);
    return flight;
  }
  template <int Live>
  void finish(const Flight& flight, int step, int part) const {
    if (step < 0 || !has_unit<Live>(part)) return;
    RotationChunks x = flight.x;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        unsigned& halves = x.chunks[i].pairs[pair];
        if constexpr (INPUT_BF16) halves = ptx::halves_of_bfloat16s(halves);
        halves = ptx::multiply_halves(halves, flight.suh.chunks[i].pairs[pair]);
      }
    }
    unsigned operand[4];
    transform_operand(operand, lane_id());
    float d[8][4];
    transform(d, x, operand);
    store(shared_step(step), 8 * unit_of(part), d);
  }
  template <int Live>
  void make_first() const {
#pragma unroll 1
    for (int part = 0; part < kStepStages; ++part) finish<Live>(start<Live>(0, part), 0, part);
  }
  void settle() const {}

 private:
  static int unit_of(int part) { return part * kWarps + warp_id(); }
  template <int Live>
  static bool has_unit(int part) {
    static_assert(2 * Live <= kStepStages * kWarps, "a unit each");
    return unit_of(part) < 2 * Live;
  }
  static void store(unsigned char* step, int first_row, const float (&d)[8][4]) {
    struct alignas(8) Words {
      unsigned first, second;
    };
    const int g = lane_id() / 4, q = lane_id() % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        unsigned char* to = row_chunk(step, first_row + 2 * q + row, 4 * i + g / 2) + g % 2 * 8;
        *reinterpret_cast<Words*>(to) = {ptx::halves_of(d[2 * i][row], d[2 * i][2 + row]),
                                         ptx::halves_of(d[2 * i + 1][row], d[2 * i + 1][2 + row])};
      }
    }
  }

  const HalfBits* x_;  // the lane's first chunk of token 0
  const HalfBits* suh_;
  i64 hidden_;
};

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    lean_prefill_fc1(const __grid_constant__ LeanPrefillFc1Arguments args) {
  const int half_tiles = static_cast<int>(ceil_div(args.intermediate, kLeanPrefillColumns));
  const int top_k = static_cast<int>(args.top_k);
  for_each_item(
      args, 2 * half_tiles, [&](int route) { return route / top_k; },
      [&](int block, i64 expert, int column_tile) {
        const i64 half = column_tile / half_tiles;  // 0: gate, 1: up; a tile lies in one of them
        const i64 column = column_tile % half_tiles * kLeanPrefillColumns;
        const i64 pitch = args.intermediate / 16 * kTileBytes;
        const LeanTile tile{
            .weights = args.w13 + (half * args.experts + expert) * (args.hidden / 16) * pitch +
                       column / 16 * kTileBytes,
            .weight_pitch = pitch,
            .depth = static_cast<int>(args.hidden),
            .columns = static_cast<int>(min_of(args.intermediate - column, kLeanPrefillColumns)),
            .output = args.gate_up + half * args.intermediate + column,
            .output_pitch = 2 * args.intermediate,
            .factor = kRotationRest};
        const HalfBits* suh = half == 0 ? args.gate_suh + expert * args.gate_suh_stride
                                        : args.up_suh + expert * args.up_suh_stride;
        multiply_live(tile, RotatedRows(args.x, suh, args.hidden),
                      args.packed_route_indices + i64{block} * kBlock, args.routes, args.state_factors);
      });
}

}  // namespace moeplan
