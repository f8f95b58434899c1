#include "runtime/oracle/packed_reference.hpp"

#include <algorithm>
#include <cmath>

#include "planner/core/check.hpp"
#include "runtime/oracle/half.hpp"

namespace moeplan::oracle {
namespace {

constexpr int kTileRows = 16, kTileColumns = 64;
constexpr int kTileWords = 128;
constexpr double kLargestE4m3 = 448;
// Scales are stored 128 times as large, so that those that matter have the exponent's highest bit.
constexpr double kScaleShift = 128;

std::size_t at(i64 index) { return static_cast<std::size_t>(index); }

// The stored byte of a scale: an fp16 number without its sign and its last seven bits.
std::uint8_t scale_byte(double scale) {
  const double raised = scale * kScaleShift;
  if (raised < 2) return 0;
  const int bits = half_of(raised) << 1;
  return static_cast<std::uint8_t>(bits >> 8);
}

double value_of_scale_byte(std::uint8_t byte) {
  return value_of_half(static_cast<std::uint16_t>(byte << 7)) / kScaleShift;
}

// The column, within 64, whose scale lies at a position.
int column_of_scale(int position) {
  // Of every four positions the middle two have changed places.
  constexpr int kSwapped[] = {0, 2, 1, 3};
  const int before = position / 4 * 4 + kSwapped[position % 4];
  return before / 8 + 8 * (before % 8);
}

}  // namespace

double value_of_e2m1(int code) {
  constexpr double kSizes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const double size = kSizes[code & 7];
  return code & 8 ? -size : size;
}

double value_of_e4m3(std::uint8_t code) {
  MOEPLAN_CHECK(code < 0x7F, "a scale that is finite and not negative");
  const int exponent = code >> 3, fraction = code & 7;
  return exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
}

double largest_scale_factor(const Nvfp4Matrix& matrix) {
  double largest = 0;
  for (const std::uint8_t code : matrix.scales) largest = std::max(largest, value_of_e4m3(code));
  double factor = 1;
  while (largest > 0 && largest * factor * 2 <= kLargestE4m3) factor *= 2;
  return factor;
}

PackedMatrix pack_nvfp4(const Nvfp4Matrix& matrix, double factor) {
  const i64 rows = matrix.inputs, columns = matrix.outputs;
  PackedMatrix packed{rows, columns, {}, {}};
  for (i64 row = 0; row < rows; row += kTileRows) {
    for (i64 column = 0; column < columns; column += kTileColumns) {
      for (int word = 0; word < kTileWords; ++word) {
        const int thread = word / 4, c1 = 16 * (word % 4) + thread / 4, c2 = c1 + 8, r = 2 * (thread % 4);
        const struct {
          int column, row;
        } slots[8] = {{c1, r},     {c1, r + 8}, {c2, r},     {c2, r + 8},
                      {c1, r + 1}, {c1, r + 9}, {c2, r + 1}, {c2, r + 9}};
        std::uint32_t bits = 0;
        for (int slot = 0; slot < 8; ++slot) {
          const i64 index = (row + slots[slot].row) * columns + column + slots[slot].column;
          bits |= static_cast<std::uint32_t>(matrix.codes[at(index)] & 15) << 4 * slot;
        }
        packed.words.push_back(bits);
      }
      for (int position = 0; position < kTileColumns; ++position) {
        const i64 index = row / kTileRows * columns + column + column_of_scale(position);
        packed.scales.push_back(scale_byte(value_of_e4m3(matrix.scales[at(index)]) * factor));
      }
    }
  }
  return packed;
}

std::vector<double> unpack_nvfp4(const PackedMatrix& matrix) {
  const i64 tiles = matrix.outputs / kTileColumns;
  std::vector<double> weights;
  for (i64 row = 0; row < matrix.inputs; ++row) {
    for (i64 column = 0; column < matrix.outputs; ++column) {
      const i64 tile = row / kTileRows * tiles + column / kTileColumns;
      const int k = static_cast<int>(row % kTileRows), n = static_cast<int>(column % kTileColumns);
      // Pairs of rows and single columns choose the thread; columns of 16 its word; the rest the four bits.
      const int word = (n % 8 * 4 + k % 8 / 2) * 4 + n / 16;
      const int slot = k / 8 + n / 8 % 2 * 2 + k % 2 * 4;
      const int code = matrix.words[at(tile * kTileWords + word)] >> 4 * slot & 15;
      // Eight scales of columns that are 8 apart lie together, in the order 0, 2, 1, 3, 4, 6, 5, 7.
      constexpr int kOrder[] = {0, 2, 1, 3, 4, 6, 5, 7};
      const int position = n % 8 * 8 + kOrder[n / 8];
      weights.push_back(value_of_e2m1(code) *
                        value_of_scale_byte(matrix.scales[at(tile * kTileColumns + position)]));
    }
  }
  return weights;
}

float folded_global(double global, bool is_bfloat16) {
  // Weights are moved into the exponent's lowest bits as they are: 2^126 or 2^14 too small; scales are 2^7
  // too large.
  return static_cast<float>(std::ldexp(global, (is_bfloat16 ? 126 : 14) - 7));
}

double rounded_to_io(double value, bool is_bfloat16) {
  return is_bfloat16 ? value_of_bfloat16(bfloat16_of(static_cast<float>(value))) : rounded_to_half(value);
}

PackedReference::PackedReference(PackedLayer layer) : layer_(std::move(layer)) {
  for (const PackedMatrix& matrix : layer_.w13) w13_.push_back(unpack_nvfp4(matrix));
  for (const PackedMatrix& matrix : layer_.w2) w2_.push_back(unpack_nvfp4(matrix));
}

std::vector<double> PackedReference::product(std::span<const double> x, const std::vector<double>& weights,
                                             double factor) const {
  std::vector<double> sums(weights.size() / x.size());
  const double* weight = weights.data();
  for (const double value : x)
    for (double& sum : sums) sum += value * *weight++;
  for (double& sum : sums) sum = rounded_to_io(sum * factor, layer_.is_bfloat16);
  return sums;
}

PackedRoute PackedReference::route(std::span<const double> x, i64 expert, double weight,
                                   bool weight_on_input) const {
  const auto width = at(layer_.intermediate);
  PackedRoute route;
  route.fc1 = product(x, w13_[at(expert)], layer_.w13_globals[at(expert)] * (weight_on_input ? weight : 1));
  for (std::size_t i = 0; i < width; ++i) {
    const double gate = route.fc1[i], up = route.fc1[width + i];
    route.activated.push_back(rounded_to_io(gate / (1 + std::exp(-gate)) * up, layer_.is_bfloat16));
  }
  route.fc2 = product(route.activated, w2_[at(expert)],
                      layer_.w2_globals[at(expert)] * (weight_on_input ? 1 : weight));
  return route;
}

}  // namespace moeplan::oracle
