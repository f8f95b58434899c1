// lean_decode_fc1: gate and up of up to 64 tokens, before their output rotation. With H the 128-point
// Hadamard transform, r a route of token t to expert e, and p gate or up:
//
//   gate_up[r][p] = (H (x[t] * suh[p][e]) / sqrt 128) w13[p][e]
//
// Work is dealt out in strips of columns of one projection of a block of 8 routes. Four warps rotate the
// block's rows, a chunk of K ahead; sixteen stream the strip's tiles through rings of their own and multiply:
// eight warps have a half of the columns each, and each of the eight has 64 of every chunk's 512 of K, those
// at its own place. Their sums are added in a fixed order, so that a row's bytes depend on nothing but its
// own token and expert.
#include "kernels/moe/hadamard_matrix.cuh"
#include "kernels/moe/lean_decode_blocks.cuh"
#include "kernels/moe/lean_decode_ring.cuh"

namespace moeplan {
namespace {

constexpr LeanDecodeFc1Shared kShared = lean_decode_fc1_shared(BITS);
static_assert(kShared.bytes == SHARED_BYTES, "host and device disagree about shared memory");
static_assert(kLeanDecodeFc1Threads == THREADS, "host and device disagree about the threads of a block");

constexpr int kStages = kShared.stages;
static_assert(kStages >= kLeanFewestStages);
constexpr int kUnitColumns = 64;  // work is dealt out in strips of one or two units of columns
constexpr int kSlots = 8;         // warps that share columns, each with its own part of every chunk
constexpr int kChunkTiles = kLeanChunk / 16;
constexpr int kSlotTiles = kChunkTiles / kSlots;
static_assert(2 * kSlots == kLeanStreams);
constexpr int kChunkBytes = kChunkTiles * kLeanRowTileBytes;

inline ptx::u64* full_barrier(int buffer) {
  return reinterpret_cast<ptx::u64*>(ptx::dynamic_shared() + kShared.barriers) + buffer;
}
inline ptx::u64* empty_barrier(int buffer) { return full_barrier(kLeanChunkBuffers + buffer); }
inline unsigned char* chunk_buffer(int buffer) {
  return ptx::dynamic_shared() + kShared.chunks + buffer * kChunkBytes;
}

// Whose turn it is of the two chunk buffers: those of the chunks of a strip, then of its sums.
struct Turn {
  int buffer = 0, parity = 0;
  void next() {
    parity ^= buffer;
    buffer ^= 1;
  }
};
static_assert(kLeanChunkBuffers == 2);

// ---- Strips. ----

struct Strip {
  LeanBlock block;
  int half;    // 0: gate, 1: up
  int column;  // of the half
  int units;   // 1 or 2
};

// The strips of a share, which counts units.
class Strips {
 public:
  Strips(const LeanDecodeFc1Arguments& args, LeanShare share)
      : half_units_(static_cast<int>(args.intermediate / kUnitColumns)),
        unit_(share.begin),
        end_(share.end) {}

  bool next(Strip& strip) {
    if (unit_ >= end_) return false;
    const int half = unit_ / half_units_, in_half = unit_ % half_units_;
    strip = {block_of(kShared.tables, half / 2), half % 2, in_half * kUnitColumns,
             static_cast<int>(min_of(2, min_of(end_ - unit_, half_units_ - in_half)))};
    unit_ += strip.units;
    return true;
  }

 private:
  int half_units_, unit_, end_;
};

inline int chunks_of(const LeanDecodeFc1Arguments& args) {
  return static_cast<int>(ceil_div(args.hidden, kLeanChunk));
}

// ---- Warps that rotate. ----

inline void rotate_rows(const LeanDecodeFc1Arguments& args, LeanShare share, int rotator) {
  unsigned matrix[4];
  hadamard_operand(matrix, lane_id());
  const int row = lane_id() / 4, chunks = chunks_of(args);
  const auto hand_over = [](Turn& turn) {
    ptx::warp_sync();
    if (lane_id() == 0) ptx::arrive(full_barrier(turn.buffer));
    turn.next();
  };
  Turn turn;
  Strip strip;
  for (Strips strips(args, share); strips.next(strip);) {
    const bool is_live = row < strip.block.rows;
    const int token =
        is_live ? route_of(kShared.tables, strip.block.first + row) / static_cast<int>(args.top_k) : 0;
    const HalfBits* x = args.x + token * args.hidden + hadamard_lane_offset();
    const HalfBits* suh =
        hadamard_lane_offset() + (strip.half == 0 ? args.gate_suh + strip.block.expert * args.gate_suh_stride
                                                  : args.up_suh + strip.block.expert * args.up_suh_stride);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      const i64 k = i64{chunk} * kLeanChunk + rotator * kHadamardBlock;
      const bool is_inside = k < args.hidden;
      // Loaded ahead of the wait, in whose time the answer comes.
      const HadamardRows rows = scaled_rows<INPUT_BF16>(x + k, suh + k, is_live && is_inside);
      ptx::wait_phase(empty_barrier(turn.buffer), turn.parity ^ 1);
      if (is_inside) store_rotated(rows, matrix, chunk_buffer(turn.buffer), rotator * (kHadamardBlock / 16));
      hand_over(turn);
    }
    // The sums' turn.
    ptx::wait_phase(empty_barrier(turn.buffer), turn.parity ^ 1);
    hand_over(turn);
  }
}

// ---- Warps that multiply. ----

// A warp's place among those that multiply.
struct Stream {
  int group;  // which half of a strip's columns
  int slot;   // which part of every chunk
};

inline int steps_of(const LeanDecodeFc1Arguments& args, Stream stream) {
  const int tail = static_cast<int>(args.hidden % kLeanChunk) / 16;  // tiles of a last chunk that is not full
  return static_cast<int>(args.hidden / kLeanChunk) + (stream.slot * kSlotTiles < tail ? 1 : 0);
}

// Starts copies of stages in the order in which they are multiplied, strip after strip. Of every chunk a
// strip of two units has two stages, of four tiles by two along K, and one of one unit has one, of two by
// four.
class Fetcher {
 public:
  Fetcher(const LeanDecodeFc1Arguments& args, LeanShare share, Stream stream)
      : args_(args), strips_(args, share), stream_(stream), steps_(steps_of(args, stream)) {
    next_strip();
  }

  void fetch(unsigned stage) {
    if (stages_ > 0) {
      copy_stage(stage, sources_);
      sources_.move((stages_ & 1) == 0 ? first_step_ : second_step_);
      if (--stages_ == 0) next_strip();
    }
    ptx::commit_copies();
  }

 private:
  void next_strip() {
    Strip strip;
    if (steps_ == 0 || !strips_.next(strip)) return;
    const int pitch = static_cast<int>(args_.intermediate / 16) * kLeanTileBytes;
    const i64 matrix = strip.half * args_.routing.experts + strip.block.expert;
    const int column = strip.column + stream_.group * (strip.units * kUnitColumns / 2);
    sources_ = lane_sources(args_.w13 + (matrix * (args_.hidden / 16) + stream_.slot * kSlotTiles) * pitch +
                                column / 16 * kLeanTileBytes,
                            2 * strip.units, pitch);
    stages_ = steps_ * strip.units;
    first_step_ = (strip.units == 2 ? kSlotTiles / 2 : kChunkTiles) * pitch;
    second_step_ = (strip.units == 2 ? kChunkTiles - kSlotTiles / 2 : kChunkTiles) * pitch;
  }

  const LeanDecodeFc1Arguments& args_;
  Strips strips_;
  Stream stream_;
  int steps_;
  LaneSources sources_{};
  int stages_ = 0;                        // of the strip, that are left
  int first_step_ = 0, second_step_ = 0;  // bytes from a stage to the next
};

// Adds the sums of the eight slots; those of slot 0 are the strip's.
constexpr int kRegionFloats = 4 * 4 * 32;  // of a warp with four tiles side by side
static_assert(kSlots * kRegionFloats * 4 <= kChunkBytes);
static_assert(2 * (kSlots - 1) <= 15, "named barriers");

template <int Side>
inline void add_slots(float (&sums)[Side][4], Stream stream, unsigned char* buffer) {
  int first_barrier = 1;
#pragma unroll
  for (int half = kSlots / 2; half >= 1; half /= 2) {
    if (stream.slot < 2 * half) {
      const int pair = stream.slot % half;
      const int barrier = first_barrier + stream.group * half + pair;
      // A region for every pair of the first round; later givers use the one that they took from.
      const int region = stream.group * (kSlots / 2) +
                         (stream.slot >= half ? stream.slot : stream.slot + half) % (kSlots / 2);
      float* at = reinterpret_cast<float*>(buffer) + region * kRegionFloats + lane_id();
      if (stream.slot >= half) {
#pragma unroll
        for (int i = 0; i < 4 * Side; ++i) at[i * 32] = sums[i / 4][i % 4];
        ptx::barrier_arrive<64>(barrier);
      } else {
        ptx::barrier_sync<64>(barrier);
#pragma unroll
        for (int i = 0; i < 4 * Side; ++i) sums[i / 4][i % 4] += at[i * 32];
      }
    }
    first_barrier += 2 * half;
  }
}

template <int Side>
inline void store_sums(const float (&sums)[Side][4], const LeanDecodeFc1Arguments& args, const Strip& strip,
                       int group) {
  const i64 column = strip.half * args.intermediate + strip.column + group * (16 * Side) + lane_id() / 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int row = lane_id() % 4 * 2 + i;
    if (row >= strip.block.rows) continue;
    HalfBits* to = args.gate_up +
                   i64{route_of(kShared.tables, strip.block.first + row)} * (2 * args.intermediate) + column;
#pragma unroll
    for (int tile = 0; tile < Side; ++tile) {
      const unsigned halves =
          ptx::halves_of(sums[tile][i] * kRotationRest, sums[tile][2 + i] * kRotationRest);
      to[16 * tile] = static_cast<HalfBits>(halves);
      to[16 * tile + 8] = static_cast<HalfBits>(halves >> 16);
    }
  }
}

// own_unit of so many tiles behind.
template <int Tiles>
inline unsigned behind(unsigned own) {
  return (own ^ (16 * Tiles)) + Tiles * kLeanRowTileBytes;
}

template <int Side>
inline void multiply_strip(const LeanDecodeFc1Arguments& args, const Strip& strip, Stream stream, Turn& turn,
                           LeanRing<kStages>& ring, Fetcher& fetcher) {
  constexpr int kDepth = kLeanStageTiles / Side;
  const int steps = steps_of(args, stream), chunks = chunks_of(args);
  float sums[Side][4] = {};
  const bool is_leader = lane_id() == 0;
  const auto release = [&] {
    ptx::warp_sync();
    if (is_leader) ptx::arrive(empty_barrier(turn.buffer));
    turn.next();
  };
  const unsigned own_rows = own_unit(ptx::shared_address(chunk_buffer(0)), stream.slot * kSlotTiles);
#pragma unroll 1
  for (int chunk = 0; chunk < chunks; ++chunk) {
    ptx::wait_phase(full_barrier(turn.buffer), turn.parity);
    if (chunk < steps) {
      const unsigned rows = own_rows + static_cast<unsigned>(turn.buffer * kChunkBytes);
      if constexpr (2 * kDepth == kSlotTiles && LeanRing<kStages>::kHasPairs) {
        const auto stages = ring.next_pair(fetcher);
        multiply_tiles<Side, kDepth>(sums, stages.first, rows, args.state_factors);
        multiply_tiles<Side, kDepth>(sums, stages.second, behind<kDepth>(rows), args.state_factors);
      } else {
#pragma unroll
        for (int tile = 0; tile < kSlotTiles; tile += kDepth)
          multiply_tiles<Side, kDepth>(sums, ring.next(fetcher), tile == 0 ? rows : behind<kDepth>(rows),
                                       args.state_factors);
      }
    }
    release();
  }
  ptx::wait_phase(full_barrier(turn.buffer), turn.parity);
  add_slots<Side>(sums, stream, chunk_buffer(turn.buffer));
  release();
  if (stream.slot == 0) store_sums<Side>(sums, args, strip, stream.group);
}

inline void multiply_strips(const LeanDecodeFc1Arguments& args, LeanShare share, int warp) {
  const Stream stream{warp / kSlots, warp % kSlots};
  LeanRing<kStages> ring(ptx::dynamic_shared() + kShared.rings + warp * (kStages * kLeanStageBytes));
  Fetcher fetcher(args, share, stream);
  ring.prime(fetcher);
  Turn turn;
  Strip strip;
  for (Strips strips(args, share); strips.next(strip);) {
    if (strip.units == 2)
      multiply_strip<4>(args, strip, stream, turn, ring, fetcher);
    else
      multiply_strip<2>(args, strip, stream, turn, ring, fetcher);
  }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kLeanDecodeFc1Threads, 1)
    lean_decode_fc1(const __grid_constant__ LeanDecodeFc1Arguments args) {
  ptx::wait_for_last_launch();
  // Whoever follows reads routes ahead of its own wait: they are there once this one has waited.
  ptx::release_next_launch();
  if (thread_id() == 0) {
    for (int buffer = 0; buffer < kLeanChunkBuffers; ++buffer) {
      ptx::mbarrier_init(full_barrier(buffer), kLeanRotators);
      ptx::mbarrier_init(empty_barrier(buffer), kLeanStreams);
    }
  }
  const int blocks = sort_routes<kLeanDecodeFc1Threads>(
      args.routing, kShared.tables, reinterpret_cast<int*>(ptx::dynamic_shared() + kShared.rings));
  const i64 units = blocks * (2 * args.intermediate / kUnitColumns);
  const LeanShare share = lean_share(units, blockIdx.x, gridDim.x);
  if (warp_id() < kLeanStreams)
    multiply_strips(args, share, warp_id());
  else
    rotate_rows(args, share, warp_id() - kLeanStreams);
}

}  // namespace moeplan
