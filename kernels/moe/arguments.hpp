// Arguments of the MoE kernels, one text for host and device. Pointers are the device's. A route is
// token * top_k + slot; tensors of the arena have a row a route unless they say otherwise.
#pragma once

#include "planner/core/integer.hpp"

namespace moeplan {

using HalfBits = unsigned short;  // fp16 or bf16

struct RoutePackArguments {
  const void* topk_ids;   // ids of the router, a route each
  const int* expert_map;  // from those to the weights' experts; null: they are the same
  int* packed_route_indices;
  int* block_expert_ids;
  int* packed_route_count;
  int* expert_offsets;  // experts + 1
  int* expert_counts;   // experts; null: not wanted
  i64 routes;           // live
  i64 experts;          // ids below this are valid, mapped or not
  i64 slots;            // of packed_route_indices, that are written
  i64 blocks;           // of block_expert_ids, that are written
};

// Powers of two by which the decoder of 3 bits multiplies: unknown to the compiler, they stay
// multiplications.
struct StateFactors {
  unsigned by_1 = 1u << 1, by_3 = 1u << 3, by_4 = 1u << 4, by_7 = 1u << 7, by_10 = 1u << 10, by_13 = 1u << 13;
};

// Words at the end of kernel_workspace that Trellis launches share: tickets, and the grid barrier's.
constexpr i64 kTrellisSharedWords = 4;

struct FusedTrellisArguments {
  const HalfBits* x;  // a row a token
  const unsigned char* w13;
  const unsigned char* w2;
  const HalfBits* gate_suh;
  const HalfBits* up_suh;
  const HalfBits* intermediate_rotations;  // gate_svh | up_svh | down_suh, a row an expert
  const int* packed_route_indices;
  const int* block_expert_ids;
  const int* packed_route_count;
  HalfBits* rotation_a_gate;
  HalfBits* rotation_a_up;
  HalfBits* intermediate_cache13;  // gate | up behind FC1, the routes' outputs behind FC2
  HalfBits* intermediate_cache2;
  int* tickets;  // of FC1 and FC2, the words before the barrier's, zero
  int* barrier;  // the last two words of kernel_workspace, zero
  i64 routes;    // live
  i64 top_k;
  i64 hidden;
  i64 intermediate;
  i64 experts;          // of the weights; blocks of others are left out
  i64 gate_suh_stride;  // from an expert's row to the next; 0: one row for all
  i64 up_suh_stride;
  StateFactors state_factors;
};

struct TopKSumArguments {
  const HalfBits* intermediate_cache13;
  const void* topk_ids;
  const float* topk_weights;
  const int* expert_map;  // marks the routes that were computed; null: all with a valid id
  const HalfBits* down_svh;
  float* output;  // a row a token
  i64 tokens;     // live
  i64 top_k;
  i64 hidden;
  i64 route_experts;  // ids below this are valid
  i64 experts;        // of the weights
  i64 down_svh_stride;
};

struct FusedPackedArguments {
  const HalfBits* x;         // a row a token
  const unsigned char* w13;  // gate | up
  const unsigned char* w2;
  const unsigned char* w13_scales;
  const unsigned char* w2_scales;
  const float* w13_globals;  // an expert each, with the powers of two that weights and scales leave out
  const float* w2_globals;
  const void* topk_ids;  // ids of the router; read where routes are not packed
  const int* expert_map;
  const float* topk_weights;
  const int* packed_route_indices;
  const int* block_expert_ids;
  const int* packed_route_count;
  HalfBits* intermediate_cache13;  // gate | up behind FC1, the routes' outputs behind FC2
  HalfBits* intermediate_cache2;
  float* fc1_c_tmp;
  float* fc2_c_tmp;
  int* locks;    // a word a block of the grid, zero
  int* barrier;  // two words, zero
  i64 routes;    // live
  i64 top_k;
  i64 hidden;
  i64 intermediate;
  i64 experts;        // of the weights; blocks of others are left out
  i64 route_experts;  // ids below this are valid
  i64 id_bytes;
  bool is_direct;         // every route owns a block, and nothing is packed
  bool weights_on_input;  // the router's weights multiply FC1's sums; else FC2's
};

struct RouteSumArguments {
  const HalfBits* intermediate_cache13;
  const void* topk_ids;
  const int* expert_map;  // marks the routes that were computed; null: all with a valid id
  HalfBits* output;       // a row a token
  i64 tokens;             // live
  i64 top_k;
  i64 hidden;
  i64 route_experts;  // ids below this are valid
  i64 experts;        // of the weights
};

}  // namespace moeplan
