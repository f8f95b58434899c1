// route_pack: sorts the routes of a launch by expert, every expert's share padded to whole blocks of BLOCK:
//
//   offset[e] = sum over f < e of ceil(count[f] / BLOCK) * BLOCK
//   packed_route_indices[offset[e] + i] = the i-th route of e, rising; in padding slots the number of routes
//   block_expert_ids[b] = the e with offset[e] <= b * BLOCK < offset[e + 1], else -1
//
// One block of threads. Every warp counts a share of consecutive routes on its own, so that ranks follow from
// sums and no two threads compete: the order is the same in every run.
#include "kernels/moe/arguments.hpp"
#include "kernels/moe/lanes.cuh"
#include "kernels/moe/route.cuh"
#include "kernels/ptx.cuh"
#include "planner/moe/kernel_geometry.hpp"

namespace moeplan {
namespace {

constexpr RoutePackShared kShared = route_pack_shared();
static_assert(kShared.bytes == SHARED_BYTES, "host and device disagree about shared memory");

constexpr int kThreads = kRoutePackThreads;
static_assert(kThreads == THREADS, "host and device disagree about the threads of a block");
constexpr int kWarps = kRoutePackWarps;
constexpr int kExperts = kRoutePackExperts;
constexpr int kThreadExperts = kExperts / kThreads;  // neighbours that one thread sums up

// Routes of each expert in a warp's share, later the rank of the share's next one.
inline int* counts_of_warp(int warp) {
  return reinterpret_cast<int*>(ptx::dynamic_shared() + kShared.counts) + warp * kExperts;
}
inline int* shared_offsets() { return reinterpret_cast<int*>(ptx::dynamic_shared() + kShared.offsets); }
inline int* shared_totals() { return reinterpret_cast<int*>(ptx::dynamic_shared() + kShared.totals); }

// The expert of a route, or -1.
inline int expert_of_route(const RoutePackArguments& args, i64 route) {
  const Id id = static_cast<const Id*>(args.topk_ids)[route];
  return static_cast<int>(expert_of(id, args.expert_map, args.experts, args.experts));
}

// Calls take(route, expert, peers before it, peers) for this warp's share, 32 routes at a time: every lane,
// with expert -1 where it has no valid route. Peers are the routes of the same 32 with the same expert.
template <class Take>
inline void for_each_route(const RoutePackArguments& args, Take take) {
  constexpr int kAhead = 8;  // of 32 routes each, whose ids a warp waits for together
  const i64 share = ceil_div(ceil_div(args.routes, 32), kWarps) * 32;
  const i64 first = warp_id() * share;
  const i64 last = min_of(first + share, args.routes);
  for (i64 ahead = first; ahead < last; ahead += 32 * kAhead) {
    int experts[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const i64 route = ahead + 32 * i + lane_id();
      experts[i] = route < last ? expert_of_route(args, route) : -1;
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (ahead + 32 * i >= last) break;
      const unsigned peers = ptx::match_any(experts[i]);
      const unsigned lower = (1u << lane_id()) - 1;
      take(ahead + 32 * i + lane_id(), experts[i], ptx::population(peers & lower), ptx::population(peers));
      ptx::warp_sync();
    }
  }
}

inline void count_routes(const RoutePackArguments& args) {
  int* counts = counts_of_warp(warp_id());
  for (int expert = lane_id(); expert < kExperts; expert += 32) counts[expert] = 0;
  ptx::warp_sync();
  for_each_route(args, [&](i64, int expert, int before, int peers) {
    if (expert >= 0 && before == 0) counts[expert] += peers;
  });
}

// Turns the warps' counts into the ranks their shares start at. Returns the expert's routes.
inline int rank_shares(int expert) {
  int routes = 0;
  for (int warp = 0; warp < kWarps; ++warp) {
    int& count = counts_of_warp(warp)[expert];
    const int before = routes;
    routes += count;
    count = before;
  }
  return routes;
}

// Sums up the padded counts: offsets of every expert, and of one behind the last.
inline void sum_up(const RoutePackArguments& args) {
  int padded[kThreadExperts], counts[kThreadExperts];
  int sum = 0;
#pragma unroll
  for (int i = 0; i < kThreadExperts; ++i) {
    counts[i] = rank_shares(thread_id() * kThreadExperts + i);
    padded[i] = (counts[i] + BLOCK - 1) / BLOCK * BLOCK;
    sum += padded[i];
  }
  int through = sum;  // of this warp's threads up to this one
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = ptx::shuffle_up(through, distance);
    if (lane_id() >= distance) through += other;
  }
  if (lane_id() == 31) shared_totals()[warp_id()] = through;
  ptx::block_sync();
  int offset = through - sum;
  for (int warp = 0; warp < warp_id(); ++warp) offset += shared_totals()[warp];
#pragma unroll
  for (int i = 0; i < kThreadExperts; ++i) {
    const int expert = thread_id() * kThreadExperts + i;
    shared_offsets()[expert] = offset;
    if (expert < args.experts) {
      if (args.expert_counts) args.expert_counts[expert] = counts[i];
      args.expert_offsets[expert] = offset + counts[i];  // as packing leaves it: advanced past its routes
    }
    offset += padded[i];
  }
  if (thread_id() == kThreads - 1) {
    shared_offsets()[kExperts] = offset;
    args.expert_offsets[args.experts] = offset;
    *args.packed_route_count = offset;
  }
}

// Every slot as padding, every block as nobody's or its expert's.
inline void fill(const RoutePackArguments& args) {
  for (i64 slot = thread_id(); slot < args.slots; slot += kThreads)
    args.packed_route_indices[slot] = static_cast<int>(args.routes);
  const int* offsets = shared_offsets();
  for (i64 block = offsets[kExperts] / BLOCK + thread_id(); block < args.blocks; block += kThreads)
    args.block_expert_ids[block] = -1;
  for (int expert = warp_id(); expert < args.experts; expert += kWarps) {
    for (int block = offsets[expert] / BLOCK + lane_id(); block < offsets[expert + 1] / BLOCK; block += 32)
      args.block_expert_ids[block] = expert;
  }
}

inline void place_routes(const RoutePackArguments& args) {
  int* ranks = counts_of_warp(warp_id());
  for_each_route(args, [&](i64 route, int expert, int before, int peers) {
    const int rank = expert >= 0 ? ranks[expert] : 0;
    ptx::warp_sync();  // every peer has read the rank that the first of them moves on
    if (expert < 0) return;
    args.packed_route_indices[shared_offsets()[expert] + rank + before] = static_cast<int>(route);
    if (before == 0) ranks[expert] = rank + peers;
  });
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads)
    route_pack(const __grid_constant__ RoutePackArguments args) {
  count_routes(args);
  ptx::block_sync();
  sum_up(args);
  ptx::block_sync();
  fill(args);
  ptx::block_sync();
  place_routes(args);
}

}  // namespace moeplan
