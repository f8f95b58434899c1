// A reference of packed NVFP4 layers in doubles, written from the format's description: slow, plain, and
// sharing no text with the kernels. Values are rounded where the kernels' tensors hold them and nowhere else.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/core/integer.hpp"

namespace moeplan::oracle {

// What the four bits of a weight and the eight of a block scale stand for; the scale is finite and not
// negative.
double value_of_e2m1(int code);
double value_of_e4m3(std::uint8_t code);

// `inputs` by `outputs` weights as checkpoints have them, row-major.
struct Nvfp4Matrix {
  i64 inputs;                        // a multiple of 16
  i64 outputs;                       // of 64
  std::vector<std::uint8_t> codes;   // [inputs][outputs], four bits each
  std::vector<std::uint8_t> scales;  // [inputs/16][outputs]
};

// The same as kernels read them.
struct PackedMatrix {
  i64 inputs;
  i64 outputs;
  std::vector<std::uint32_t> words;  // [inputs/16][outputs/64][128]
  std::vector<std::uint8_t> scales;  // [inputs/16][outputs], permuted within 64
};

// Scales are multiplied by `factor`, a power of two that leaves none above 448. What is below 2^-6 then is
// lost.
PackedMatrix pack_nvfp4(const Nvfp4Matrix& matrix, double factor);
// The largest such power of two.
double largest_scale_factor(const Nvfp4Matrix& matrix);

// [inputs][outputs]: every weight times its block's scale.
std::vector<double> unpack_nvfp4(const PackedMatrix& matrix);

// What a kernel multiplies its sums by where the weights above are to be multiplied by `global`: bf16 and
// fp16 kernels leave out powers of two of their own.
float folded_global(double global, bool is_bfloat16);

// ---- The fused MoE. ----

struct PackedLayer {
  i64 hidden, intermediate, experts;
  bool is_bfloat16;
  std::vector<PackedMatrix> w13;  // an expert each: hidden by gate | up
  std::vector<PackedMatrix> w2;
  std::vector<double> w13_globals, w2_globals;
};

// What every phase leaves of one route, rounded to the layer's type.
struct PackedRoute {
  std::vector<double> fc1;        // gate | up
  std::vector<double> activated;  // intermediate
  std::vector<double> fc2;        // hidden
};

double rounded_to_io(double value, bool is_bfloat16);

class PackedReference {
 public:
  explicit PackedReference(PackedLayer layer);
  // `x`: the token's row, values of the layer's type. `weight`: the router's, which multiplies FC1's sums
  // where it applies to the input, else FC2's.
  PackedRoute route(std::span<const double> x, i64 expert, double weight, bool weight_on_input) const;

 private:
  std::vector<double> product(std::span<const double> x, const std::vector<double>& weights,
                              double factor) const;

  PackedLayer layer_;
  std::vector<std::vector<double>> w13_, w2_;
};

}  // namespace moeplan::oracle
