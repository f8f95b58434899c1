// A reference of Trellis layers in doubles, written from the format's description: slow, plain, and sharing
// no text with the kernels. Values are rounded to halves where the format says so and nowhere else.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/core/integer.hpp"

namespace moeplan::oracle {

using HalfBits = std::uint16_t;

enum class Codebook { three_instructions, mcg, mul1 };

// The half that a state stands for.
HalfBits trellis_weight(Codebook codebook, std::uint16_t state);

// States of a tile's 256 weights, and where weight t lies in the tile. `words`: its 16 * bits words, in the
// order of memory.
std::array<std::uint16_t, 256> trellis_states(std::span<const std::uint16_t> words);
struct TilePlace {
  int k;
  int n;
};
TilePlace trellis_place(int t);

// A layer of `inputs` by `outputs` weights, row-major, from its tiles [inputs/16][outputs/16].
struct TrellisShape {
  i64 inputs;
  i64 outputs;
  i64 bits;
  i64 words() const { return inputs * outputs * bits / 16; }
};
std::vector<float> decode_trellis(const TrellisShape& shape, Codebook codebook,
                                  std::span<const std::uint16_t> words);

// Every block of 128 becomes its Hadamard transform / sqrt(128).
void rotate(std::span<double> values);

// fp16(rotate(fp16(x * suh))): what a layer multiplies.
std::vector<HalfBits> rotated_input(std::span<const double> x, std::span<const HalfBits> suh);
// x @ weights, without rounding; x as many halves as the layer has inputs.
std::vector<double> product(std::span<const HalfBits> x, std::span<const float> weights, i64 outputs);

// rotate(z) * svh.
std::vector<double> rotated_output(std::span<const double> z, std::span<const HalfBits> svh);

// ---- Route packing. ----

struct PackedRoutes {
  std::vector<int> route_indices;  // slots
  std::vector<int> block_experts;
  int count = 0;
  std::vector<int> offsets;  // experts + 1, as packing leaves them: advanced past each expert's routes
  std::vector<int> counts;
};

// Which expert a route goes to: `experts` ids are valid, before and behind the map. -1: none.
int expert_of(i64 id, i64 experts, const std::vector<int>* map);
// Routes of one expert stand in rising order.
PackedRoutes pack_routes(std::span<const i64> ids, i64 experts, const std::vector<int>* map, i64 block,
                         i64 slots, i64 blocks);

// ---- The fused MoE. ----

struct MoeShape {
  i64 hidden, intermediate, experts, bits;
};

// Of one layer; a table of one row serves all experts.
struct MoeLayer {
  MoeShape shape;
  std::vector<std::uint16_t> w13;                    // tiles [gate, up][experts][hidden/16][intermediate/16]
  std::vector<std::uint16_t> w2;                     // tiles [experts][intermediate/16][hidden/16]
  std::vector<HalfBits> gate_suh, up_suh, down_svh;  // [experts or 1][hidden]
  std::vector<HalfBits> rotations;                   // [experts][gate_svh, up_svh, down_suh][intermediate]
  Codebook codebook = Codebook::mcg;
};

// What every phase leaves of one route.
struct RouteReference {
  std::vector<HalfBits> rotated_gate, rotated_up;  // hidden
  std::vector<HalfBits> fc1;                       // gate | up
  std::vector<HalfBits> activated;                 // intermediate
  std::vector<HalfBits> fc2;                       // hidden
  std::vector<double> output;                      // hidden: its share of y but for the router's weight
};

class MoeReference {
 public:
  explicit MoeReference(MoeLayer layer);
  // `x`: the token's row, values of the input type.
  RouteReference route(std::span<const double> x, i64 expert) const;

 private:
  std::span<const HalfBits> row(const std::vector<HalfBits>& table, i64 expert, i64 width) const;

  MoeLayer layer_;
  std::vector<std::vector<float>> gate_, up_, down_;  // an expert each
};

}  // namespace moeplan::oracle
