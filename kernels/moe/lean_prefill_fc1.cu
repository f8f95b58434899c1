// lean_prefill_fc1: gate and up of a lean prefill launch. For every valid route r, with its token t, its
// expert e and H the 128-point Hadamard transform of each block of 128:
//
//   gate_up[r] = fp16(sqrt 2 * (fp16(H fp16(fp16(x[t]) * suh[e]) / 16) @ W13[e]))     gate, then up
//
// which is the product with rows rotated by H / sqrt 128. Rows are rotated on their way into shared memory:
// no rotated row is ever stored.
#include "planner/moe/lean_prefill_geometry.hpp"

namespace moeplan {
constexpr LeanPrefillTile kTile = lean_prefill_fc1_tile(GROUPS);
}

#include "kernels/moe/lean_multiply.cuh"
#include "kernels/moe/lean_prefill_arguments.hpp"
#include "kernels/moe/lean_rotation.cuh"

namespace moeplan {
namespace {

// Rows of x times suh, rotated: a warp makes 8 rows of a step at a time.
class RotatedRows {
 public:
  RotatedRows(const HalfBits* x, i64 hidden) : x_(x), hidden_(hidden) {}

  using Flight = RotationChunks;

  // Of the step behind `step`.
  template <int Live>
  Flight start(int step, int steps, int part) const {
    if (part == 0 && step + 2 < steps) copy_scales(step + 2);
    return step + 1 < steps ? load<Live>(step + 1, part) : Flight{};
  }
  template <int Live>
  void finish(const Flight& flight, int step, int steps, int part) const {
    if (step + 1 < steps) make<Live>(flight, step + 1, part);
  }
  template <int Live>
  void make_first(int steps) const {
    copy_scales(0);
    if (steps > 1) copy_scales(1);
    ptx::commit_copies();
    ptx::wait_copies<0>();
    ptx::block_sync();
#pragma unroll 1
    for (int part = 0; part < kParts; ++part) make<Live>(load<Live>(0, part), 0, part);
  }

 private:
  static int unit_of(int part) { return part * kWarps + ptx::opaque(thread_id()) / 32; }
  template <int Live>
  static bool has_unit(int part) {
    static_assert(2 * Live <= kParts * kWarps, "a unit each");
    return unit_of(part) < 2 * Live;
  }

  static unsigned char* shared_scales(int step) {
    return ptx::dynamic_shared() + kShared.scales + step % 2 * kShared.scale_bytes;
  }
  void copy_scales(int step) const {
    if (thread_id() < kHadamardBlock / 8)
      ptx::copy_async(shared_scales(step) + thread_id() * 16,
                      *shared_suh() + step * kHadamardBlock + thread_id() * 8, 16);
  }

  template <int Live>
  Flight load(int step, int part) const {
    if (!has_unit<Live>(part)) return {};
    const int lane = ptx::opaque(lane_id());
    const int token = shared_rows()[8 * unit_of(part) + lane / 4];
    // Padding multiplies whatever row: its sums are not stored.
    return load_chunks(x_ + max_of(token, 0) * hidden_ + (step * kHadamardBlock + lane % 4 * 8));
  }
  template <int Live>
  void make(Flight x, int step, int part) const {
    if (!has_unit<Live>(part)) return;
    const auto scales =
        load_chunks(reinterpret_cast<const HalfBits*>(shared_scales(step)) + lane_id() % 4 * 8);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        unsigned& halves = x.chunks[i].pairs[pair];
        if constexpr (INPUT_BF16) halves = ptx::halves_of_bfloat16s(halves);
        halves = ptx::multiply_halves(halves, scales.chunks[i].pairs[pair]);
      }
    }
    // Computed again for every unit, in place of being kept through the multiplications.
    const int lane = ptx::opaque(lane_id());
    unsigned operand[4];
    hadamard_operand(operand, lane);
// Half of the chunks at a time: there are no registers for all.
#pragma unroll 1
    for (int c1 = 0; c1 < 2; ++c1) {
      float d[4][4];
      transform(d, x, operand, c1);
      store(shared_step(step), 8 * unit_of(part), lane, c1, d);
    }
  }
  static void store(unsigned char* step, int first_row, int lane, int c1, const float (&d)[4][4]) {
    struct alignas(8) Words {
      unsigned first, second;
    };
    const int g = lane / 4, q = lane % 4;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        unsigned char* to = row_chunk(step, first_row + 2 * q + row, 4 * (2 * c1 + c) + g / 2) + g % 2 * 8;
        *reinterpret_cast<Words*>(to) = {ptx::halves_of(d[2 * c][row], d[2 * c][2 + row]),
                                         ptx::halves_of(d[2 * c + 1][row], d[2 * c + 1][2 + row])};
      }
    }
  }

  const HalfBits* x_;
  i64 hidden_;
};

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, kTile.blocks_per_sm)
    lean_prefill_fc1(const __grid_constant__ LeanPrefillFc1Arguments args) {
  const int half_tiles = static_cast<int>(ceil_div(args.intermediate, kTile.columns()));
  const RowItems items{args.packed_route_indices, args.packed_route_count, 2 * half_tiles, args.routes};
  for_each_item(
      items, args.ticket, [&](int route) { return route / static_cast<int>(args.top_k); },
      [&](int block, int column_tile) {
        const i64 expert = args.block_expert_ids[block];
        if (expert < 0 || expert >= args.experts) return;
        const i64 half = column_tile / half_tiles;  // 0: gate, 1: up; a tile lies in one of them
        const i64 column = column_tile % half_tiles * kTile.columns();
        const i64 pitch = args.intermediate / 16 * kTileBytes;
        const LeanTile tile{.weights = args.w13 +
                                       (half * args.experts + expert) * (args.hidden / 16) * pitch +
                                       column / 16 * kTileBytes,
                            .weight_pitch = static_cast<int>(pitch),
                            .depth = static_cast<int>(args.hidden),
                            .columns = static_cast<int>(min_of(args.intermediate - column, kTile.columns())),
                            .output = args.gate_up,
                            .output_pitch = 2 * args.intermediate,
                            .factor = kRotationRest};
        if (thread_id() == 0) {
          *shared_column() = static_cast<int>(half * args.intermediate + column);
          *shared_suh() = half == 0 ? args.gate_suh + expert * args.gate_suh_stride
                                    : args.up_suh + expert * args.up_suh_stride;
        }
        ptx::block_sync();
        multiply_live(tile, RotatedRows(args.x, args.hidden), args.state_factors);
      });
}

}  // namespace moeplan
