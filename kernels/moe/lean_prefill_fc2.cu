// lean_prefill_fc2: one slice of columns of a lean prefill launch's second product. For every valid route r,
// with its expert e:
//
//   expert_rows[r] = fp16(activated[r] @ W2[e])     the slice's columns
#include "kernels/moe/hadamard.cuh"
#include "kernels/moe/lean_multiply.cuh"
#include "kernels/moe/lean_prefill_arguments.hpp"

namespace moeplan {
namespace {

// Rows as they lie in memory, copied.
class CopiedRows {
 public:
  CopiedRows(const HalfBits* from, i64 pitch) : from_(from + chunk() * 8), pitch_(pitch) {}

  struct Flight {};

  // All of a step's copies with its first part's: they have the others' time.
  template <int Live>
  Flight start(int step, int part) const {
    if (step < 0 || part != 0) return {};
#pragma unroll
    for (int i = 0; i < Live * 16 / kThreadRows; ++i) {
      const int row = thread_id() / kRowChunks + i * kThreadRows;
      const int route = shared_rows()[row];
      // Padding is multiplied as zeros.
      ptx::copy_async(row_chunk(shared_step(step), row, chunk()),
                      from_ + max_of(route, 0) * pitch_ + step * kLeanPrefillStepK, route < 0 ? 0 : 16);
    }
    return {};
  }
  template <int Live>
  void finish(const Flight&, int, int) const {}
  template <int Live>
  void make_first() const {
    start<Live>(0, 0);
  }
  // Groups of copies are closed a part each: three were behind the first part's.
  void settle() const { ptx::wait_copies<kStepStages - 1>(); }

 private:
  static constexpr int kRowChunks = kRowBytes / 16;
  static constexpr int kThreadRows = kThreads / kRowChunks;  // from one row of a thread to its next
  static_assert(kThreadRows == 16, "groups of rows are copied as a whole");
  static int chunk() { return thread_id() % kRowChunks; }

  const HalfBits* from_;  // the thread's chunk of route 0
  i64 pitch_;
};

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 1)
    lean_prefill_fc2(const __grid_constant__ LeanPrefillFc2Arguments args) {
  const int column_tiles = static_cast<int>(ceil_div(args.columns, kLeanPrefillColumns));
  for_each_item(
      args, column_tiles, [](int route) { return route; },
      [&](int block, i64 expert, int column_tile) {
        const i64 column = i64{column_tile} * kLeanPrefillColumns;
        const i64 pitch = args.hidden / 16 * kTileBytes;
        const LeanTile tile{
            .weights = args.w2 + expert * (args.intermediate / 16) * pitch + column / 16 * kTileBytes,
            .weight_pitch = pitch,
            .depth = static_cast<int>(args.intermediate),
            .columns = static_cast<int>(min_of(args.columns - column, kLeanPrefillColumns)),
            .output = args.expert_rows + column,
            .output_pitch = args.row_pitch,
            .factor = 1};
        multiply_live(tile, CopiedRows(args.activated, args.intermediate),
                      args.packed_route_indices + i64{block} * kBlock, args.routes, args.state_factors);
      });
}

}  // namespace moeplan
