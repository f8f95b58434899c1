// lean_prefill_fc2: one slice of columns of a lean prefill launch's second product. For every valid route r,
// with its expert e:
//
//   expert_rows[r] = fp16(activated[r] @ W2[e])     the slice's columns
#include "planner/moe/lean_prefill_geometry.hpp"

namespace moeplan {
constexpr LeanPrefillTile kTile = lean_prefill_fc2_tile(BITS);
}

#include "kernels/moe/lean_multiply.cuh"
#include "kernels/moe/lean_prefill_arguments.hpp"

namespace moeplan {
namespace {

// Rows as they lie in memory, copied.
class CopiedRows {
 public:
  CopiedRows(const HalfBits* from, i64 pitch) : from_(from), pitch_(pitch) {}

  struct Flight {};

  // All of a step's copies with its first part: they have the others' time.
  template <int Live>
  Flight start(int step, int steps, int part) const {
    if (part == 0 && step + 1 < steps) copy<Live>(step + 1);
    return {};
  }
  template <int Live>
  void finish(const Flight&, int, int, int) const {}
  template <int Live>
  void make_first(int) const {
    copy<Live>(0);
  }

 private:
  static constexpr int kRowChunks = kRowBytes / 16;
  static constexpr int kThreadRows = kThreads / kRowChunks;  // from one row of a thread to its next

  template <int Live>
  void copy(int step) const {
    // Computed again, in place of being kept through the multiplications.
    const int thread = ptx::opaque(thread_id()), chunk = thread % kRowChunks;
// There are no registers for more addresses.
#pragma unroll 2
    for (int row = thread / kRowChunks; row < Live * 16; row += kThreadRows) {
      const int route = shared_rows()[row];
      // Padding is multiplied as zeros.
      ptx::copy_async(row_chunk(shared_step(step), row, chunk),
                      from_ + max_of(route, 0) * pitch_ + (step * kLeanPrefillStepK + chunk * 8),
                      route < 0 ? 0 : 16);
    }
  }

  const HalfBits* from_;
  i64 pitch_;
};

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, kTile.blocks_per_sm)
    lean_prefill_fc2(const __grid_constant__ LeanPrefillFc2Arguments args) {
  const RowItems items{args.packed_route_indices, args.packed_route_count,
                       static_cast<int>(ceil_div(args.columns, kTile.columns())), args.routes};
  for_each_item(
      items, args.ticket, [](int route) { return route; },
      [&](int block, int column_tile) {
        const i64 expert = args.block_expert_ids[block];
        if (expert < 0 || expert >= args.experts) return;
        const i64 column = column_tile * kTile.columns();
        const i64 pitch = args.hidden / 16 * kTileBytes;
        const LeanTile tile{
            .weights = args.w2 + expert * (args.intermediate / 16) * pitch + column / 16 * kTileBytes,
            .weight_pitch = static_cast<int>(pitch),
            .depth = static_cast<int>(args.intermediate),
            .columns = static_cast<int>(min_of(args.columns - column, kTile.columns())),
            .output = args.expert_rows,
            .output_pitch = args.row_pitch,
            .factor = 1};
        if (thread_id() == 0) *shared_column() = static_cast<int>(column);
        multiply_live(tile, CopiedRows(args.activated, args.intermediate), args.state_factors);
      });
}

}  // namespace moeplan
