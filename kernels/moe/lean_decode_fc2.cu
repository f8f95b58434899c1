// lean_decode_fc2: the rows of w2's products of up to 64 tokens, a slice of their columns. With r a route to
// expert e:
//
//   expert_rows[r] = activated[r] w2[e]
//
// Work is dealt out in columns of tiles, or in two side by side, of a block of 8 routes. Two warps share a
// column, each with a half of K, and every warp streams its tiles through a ring of its own. A row's bytes
// depend on nothing but its own token and expert.
#include "kernels/moe/hadamard.cuh"
#include "kernels/moe/lean_decode_blocks.cuh"
#include "kernels/moe/lean_decode_ring.cuh"

namespace moeplan {
namespace {

constexpr LeanDecodeFc2Shared kShared = lean_decode_fc2_shared(BITS, INTERMEDIATE);
static_assert(kShared.bytes == SHARED_BYTES, "host and device disagree about shared memory");
static_assert(kLeanDecodeFc2Threads == THREADS, "host and device disagree about the threads of a block");

constexpr int kStages = kShared.stages;
static_assert(kStages >= kLeanFewestStages);
constexpr int kPairs = kLeanStreams / 2;           // of warps
constexpr int kHalfTiles = INTERMEDIATE / 16 / 2;  // of a column, along K, that a warp multiplies
static_assert(kHalfTiles % 4 == 0);                // so that rows_behind finds rows
constexpr int kDepth = kLeanStageTiles / SIDE;     // of a stage, along K
constexpr int kSteps = ceil_div(kHalfTiles, kDepth);
constexpr int kLastDepth = kHalfTiles - (kSteps - 1) * kDepth;
constexpr int kWholeSteps = kLastDepth == kDepth ? kSteps : kSteps - 1;
constexpr int kColumnWidth = 16 * SIDE;

inline unsigned char* block_rows() { return ptx::dynamic_shared() + kShared.rows; }

// ---- Columns of tiles. ----

// Of a block of routes, those that this block of threads multiplies.
struct Columns {
  LeanBlock block;
  int begin, end;
};

class ColumnRanges {
 public:
  ColumnRanges(const LeanDecodeFc2Arguments& args, LeanShare share)
      : of_block_(static_cast<int>(args.columns / kColumnWidth)), at_(share.begin), end_(share.end) {}

  bool next(Columns& columns) {
    if (at_ >= end_) return false;
    const int block = at_ / of_block_, first = block * of_block_;
    columns = {block_of(kShared.tables, block), at_ - first,
               static_cast<int>(min_of(end_ - first, of_block_))};
    at_ = first + columns.end;
    return true;
  }

 private:
  int of_block_, at_, end_;
};

// Starts copies of stages in the order in which a warp multiplies them.
class Fetcher {
 public:
  Fetcher(const LeanDecodeFc2Arguments& args, LeanShare share, int pair, int half)
      : args_(args), ranges_(args, share), pair_(pair), half_(half) {
    pitch_ = static_cast<int>(args.hidden / 16) * kLeanTileBytes;
    next_column();
  }

  void fetch(unsigned stage) {
    if (steps_ > 0) {
      copy_stage(stage, sources_, steps_ == 1 ? kLastDepth * SIDE * kLeanTileBytes / 16 : kLeanStageChunks);
      sources_.move(kDepth * pitch_);
      if (--steps_ == 0) next_column();
    }
    ptx::commit_copies();
  }

 private:
  void next_column() {
    column_ += kPairs;
    while (column_ >= columns_.end) {
      if (!ranges_.next(columns_)) return;
      column_ = columns_.begin + pair_;
    }
    sources_ = lane_sources(
        args_.w2 + (i64{columns_.block.expert} * (INTERMEDIATE / 16) + half_ * kHalfTiles) * pitch_ +
            column_ * (SIDE * kLeanTileBytes),
        SIDE, pitch_);
    steps_ = kSteps;
  }

  const LeanDecodeFc2Arguments& args_;
  ColumnRanges ranges_;
  Columns columns_{};
  int pair_, half_, pitch_, column_ = 0;
  LaneSources sources_{};
  int steps_ = 0;
};

// ---- Rows. ----

// A thread's eighths of a block's rows, in registers until the rows before are multiplied.
constexpr int kRowChunks = INTERMEDIATE / 8;
constexpr int kOwnChunks = ceil_div(kLeanDecodeBlock * kRowChunks, kLeanDecodeFc2Threads);
struct RowChunks {
  HalfOctet chunks[kOwnChunks];
};

template <class Use>
inline void for_each_chunk(const LeanBlock& block, Use use) {
#pragma unroll
  for (int i = 0; i < kOwnChunks; ++i) {
    const int at = i * kLeanDecodeFc2Threads + thread_id();
    if (at / kRowChunks < block.rows) use(i, at / kRowChunks, at % kRowChunks);
  }
}

inline void load_rows(RowChunks& rows, const LeanDecodeFc2Arguments& args, const LeanBlock& block) {
  for_each_chunk(block, [&](int i, int row, int chunk) {
    const i64 route = route_of(kShared.tables, block.first + row);
    rows.chunks[i] = reinterpret_cast<const HalfOctet*>(args.activated + route * INTERMEDIATE)[chunk];
  });
}

inline void store_rows(const RowChunks& rows, const LeanBlock& block) {
  for_each_chunk(block, [&](int i, int row, int chunk) {
#pragma unroll
    for (int quad = 0; quad < 4; ++quad) {
      unsigned* unit = reinterpret_cast<unsigned*>(row_unit(block_rows(), chunk / 2, row, quad));
      const unsigned pair = rows.chunks[i].pairs[quad];
      unit[chunk % 2] = ptx::permute_bytes(pair, pair, 0x1010);
      unit[2 + chunk % 2] = ptx::permute_bytes(pair, pair, 0x3232);
    }
  });
}

// ---- The product. ----

struct Pair {
  int number, half;
  int turn = 0;  // of its room for sums, which has two

  float* meeting() {
    float* const at = reinterpret_cast<float*>(ptx::dynamic_shared() + kShared.sums) +
                      (turn * kPairs + number) * (kLeanMostSide * 128) + lane_id();
    turn ^= 1;
    return at;
  }
};

inline void store_sums(const float (&sums)[SIDE][4], const LeanDecodeFc2Arguments& args,
                       const LeanBlock& block, int column) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = lane_id() % 4 * 2 + i;
    if (row >= block.rows) continue;
    HalfBits* to = args.expert_rows + route_of(kShared.tables, block.first + row) * args.row_pitch +
                   column * kColumnWidth + lane_id() / 4;
#pragma unroll
    for (int tile = 0; tile < SIDE; ++tile) {
      const unsigned halves = ptx::halves_of(sums[tile][i], sums[tile][2 + i]);
      to[16 * tile] = static_cast<HalfBits>(halves);
      to[16 * tile + 8] = static_cast<HalfBits>(halves >> 16);
    }
  }
}

inline void multiply(const LeanDecodeFc2Arguments& args, const Columns& columns, Pair& pair,
                     LeanRing<kStages>& ring, Fetcher& fetcher) {
#pragma unroll 1
  for (int column = columns.begin + pair.number; column < columns.end; column += kPairs) {
    float sums[SIDE][4] = {};
    const auto rows_of_step = [&](int step) {
      return own_unit(ptx::shared_address(block_rows()), pair.half * kHalfTiles + step * kDepth);
    };
    int step = 0;
    if constexpr (LeanRing<kStages>::kHasPairs) {
#pragma unroll 1
      for (; step + 2 <= kWholeSteps; step += 2) {
        const auto stages = ring.next_pair(fetcher);
        multiply_tiles<SIDE, kDepth>(sums, stages.first, rows_of_step(step), args.state_factors);
        multiply_tiles<SIDE, kDepth>(sums, stages.second, rows_of_step(step + 1), args.state_factors);
      }
    }
#pragma unroll 1
    for (; step < kWholeSteps; ++step)
      multiply_tiles<SIDE, kDepth>(sums, ring.next(fetcher), rows_of_step(step), args.state_factors);
    if constexpr (kWholeSteps < kSteps)
      multiply_tiles<SIDE, kLastDepth>(sums, ring.next(fetcher), rows_of_step(kWholeSteps),
                                       args.state_factors);
    float* const meeting = pair.meeting();
    if (pair.half == 1) {
#pragma unroll
      for (int i = 0; i < 4 * SIDE; ++i) meeting[32 * i] = sums[i / 4][i % 4];
    }
    ptx::barrier_sync<64>(1 + pair.number);
    if (pair.half == 1) continue;
#pragma unroll
    for (int i = 0; i < 4 * SIDE; ++i) sums[i / 4][i % 4] += meeting[32 * i];
    store_sums(sums, args, columns.block, column);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kLeanDecodeFc2Threads, 1)
    lean_decode_fc2(const __grid_constant__ LeanDecodeFc2Arguments args) {
  ptx::release_next_launch();
  unsigned char* const shared = ptx::dynamic_shared();
  const int blocks = sort_routes<kLeanDecodeFc2Threads>(args.routing, kShared.tables,
                                                        reinterpret_cast<int*>(shared + kShared.rings));
  const LeanShare share = lean_share(blocks * (args.columns / kColumnWidth), blockIdx.x, gridDim.x);
  Pair pair{warp_id() / 2, warp_id() % 2};
  LeanRing<kStages> ring(shared + kShared.rings + warp_id() * (kStages * kLeanStageBytes));
  Fetcher fetcher(args, share, pair.number, pair.half);
  ring.prime(fetcher);
  // Weights do not depend on the launch before.
  ptx::wait_for_last_launch();

  ColumnRanges ranges(args, share);
  Columns columns, next;
  RowChunks rows{};
  bool is_any = ranges.next(columns);
  if (is_any) load_rows(rows, args, columns.block);
  while (is_any) {
    ptx::block_sync();  // the rows before are multiplied
    store_rows(rows, columns.block);
    is_any = ranges.next(next);
    if (is_any) load_rows(rows, args, next.block);
    ptx::block_sync();
    multiply(args, columns, pair, ring, fetcher);
    columns = next;
  }
}

}  // namespace moeplan
