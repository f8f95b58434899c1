// The reference of packed weights: its tables, and what it packs read back.
#include "runtime/oracle/packed_reference.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/catch.hpp"
#include "tests/random.hpp"

using namespace moeplan;
using namespace moeplan::oracle;
using moeplan::test::Random;

namespace {

Nvfp4Matrix zeros(i64 inputs, i64 outputs, std::uint8_t scale) {
  return {inputs, outputs, std::vector<std::uint8_t>(static_cast<std::size_t>(inputs * outputs)),
          std::vector<std::uint8_t>(static_cast<std::size_t>(inputs / 16 * outputs), scale)};
}

constexpr std::uint8_t kOne = 0x38;  // 1 as an e4m3 number

}  // namespace

TEST_CASE("four bits are a sign and one of 0, 0.5, 1, 1.5, 2, 3, 4, 6") {
  const double sizes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int code = 0; code < 8; ++code) {
    CHECK(value_of_e2m1(code) == sizes[code]);
    CHECK(value_of_e2m1(code + 8) == -sizes[code]);
    CHECK(std::signbit(value_of_e2m1(code + 8)));
  }
}

TEST_CASE("e4m3 scales rise from 0 by 2^-9 to 448, with eight steps an octave") {
  CHECK(value_of_e4m3(0) == 0);
  CHECK(value_of_e4m3(1) == std::ldexp(1, -9));
  CHECK(value_of_e4m3(7) == std::ldexp(7, -9));
  CHECK(value_of_e4m3(8) == std::ldexp(1, -6));
  CHECK(value_of_e4m3(kOne) == 1);
  CHECK(value_of_e4m3(kOne + 1) == 1.125);
  CHECK(value_of_e4m3(0x7E) == 448);
  for (int code = 1; code < 0x7F; ++code) {
    const auto value = value_of_e4m3(static_cast<std::uint8_t>(code));
    const auto before = value_of_e4m3(static_cast<std::uint8_t>(code - 1));
    const int octave = std::max(code - 1, 8) / 8;
    CHECK(value - before == std::ldexp(1, octave - 10));
  }
}

TEST_CASE("what is packed is read back: every code and every scale that packing keeps") {
  Random random;
  for (const auto& [inputs, outputs] : {std::pair{16, 64}, {48, 192}, {64, 128}}) {
    Nvfp4Matrix matrix = zeros(inputs, outputs, 0);
    for (auto& code : matrix.codes) code = static_cast<std::uint8_t>(random.in(0, 15));
    for (auto& scale : matrix.scales) scale = static_cast<std::uint8_t>(random.in(8, 0x7E));
    const auto weights = unpack_nvfp4(pack_nvfp4(matrix, 1));
    for (i64 row = 0; row < inputs; ++row) {
      for (i64 column = 0; column < outputs; ++column) {
        const auto index = static_cast<std::size_t>(row * outputs + column);
        const auto scale = static_cast<std::size_t>(row / 16 * outputs + column);
        REQUIRE(weights[index] == value_of_e2m1(matrix.codes[index]) * value_of_e4m3(matrix.scales[scale]));
      }
    }
  }
}

TEST_CASE("a word holds columns c and c + 8 of rows r, r + 8 in its lower half and of r + 1, r + 9 above") {
  // One weight after the other is set in an empty tile, and has to show where the format's table puts it.
  std::set<std::pair<std::size_t, int>> seen;
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 64; ++column) {
      Nvfp4Matrix matrix = zeros(16, 64, kOne);
      matrix.codes[static_cast<std::size_t>(row * 64 + column)] = 15;
      const PackedMatrix packed = pack_nvfp4(matrix, 1);
      const auto word = std::ranges::find_if(packed.words, [](auto bits) { return bits != 0; });
      const auto place = static_cast<std::size_t>(word - packed.words.begin());
      int slot = 0;
      while (*word >> 4 * slot != 15) ++slot;
      seen.insert({place, slot});
    }
  }
  CHECK(seen.size() == 1024);
  Nvfp4Matrix matrix = zeros(16, 64, kOne);
  // Thread 6 is column 1 and row 4; its word 2 begins at column 33.
  const struct {
    int row, column;
  } slots[] = {{4, 33}, {12, 33}, {4, 41}, {12, 41}, {5, 33}, {13, 33}, {5, 41}, {13, 41}};
  for (int slot = 0; slot < 8; ++slot)
    matrix.codes[static_cast<std::size_t>(slots[slot].row * 64 + slots[slot].column)] =
        static_cast<std::uint8_t>(slot + 1);
  CHECK(pack_nvfp4(matrix, 1).words[6 * 4 + 2] == 0x87654321);
}

TEST_CASE("scales are bytes of fp16 numbers, in an order that gives a lane its eight as two words") {
  Nvfp4Matrix matrix = zeros(16, 64, 0);
  for (int column = 0; column < 64; ++column)
    matrix.scales[static_cast<std::size_t>(column)] = static_cast<std::uint8_t>(8 + column);
  const auto scales = pack_nvfp4(matrix, 1).scales;
  // 2^-6 is stored as 2, whose fp16 bits are 0x4000: its byte is 0x80. The next scales are the next bytes.
  const int first[] = {0, 16, 8, 24, 32, 48, 40, 56};
  for (int lane = 0; lane < 8; ++lane)
    for (int i = 0; i < 8; ++i)
      CHECK(scales[static_cast<std::size_t>(8 * lane + i)] == 0x80 + first[i] + lane);
}

TEST_CASE("scales below 2^-6 are lost, unless a power of two lifts them all") {
  Nvfp4Matrix matrix = zeros(16, 64, 7);
  matrix.codes.assign(matrix.codes.size(), 2);
  CHECK(unpack_nvfp4(pack_nvfp4(matrix, 1))[0] == 0);
  const double factor = largest_scale_factor(matrix);
  CHECK(factor == std::ldexp(1, 15));
  CHECK(unpack_nvfp4(pack_nvfp4(matrix, factor))[0] == std::ldexp(7, -9) * factor);
  matrix.scales[0] = 0x7E;
  CHECK(largest_scale_factor(matrix) == 1);
}

TEST_CASE("a route's rows are the products, the activation between them, and the router's weight in one") {
  // Weights of one column each: gate 2, up 3, down 1, of a layer with 64 hidden and intermediate columns.
  Nvfp4Matrix w13 = zeros(64, 128, kOne), w2 = zeros(64, 64, kOne);
  w13.codes[0] = 4;
  w13.codes[64] = 5;
  w2.codes[0] = 2;
  const PackedReference reference({64, 64, 1, true, {pack_nvfp4(w13, 1)}, {pack_nvfp4(w2, 1)}, {0.5}, {2.0}});
  std::vector<double> x(64);
  x[0] = 1;
  const double gate = 1, up = 1.5, silu = gate / (1 + std::exp(-gate));
  PackedRoute route = reference.route(x, 0, 0.25, false);
  CHECK(route.fc1[0] == gate);
  CHECK(route.fc1[64] == up);
  CHECK(route.activated[0] == rounded_to_io(silu * up, true));
  CHECK(route.fc2[0] == rounded_to_io(route.activated[0] * 2 * 0.25, true));
  CHECK(route.fc2[1] == 0);
  route = reference.route(x, 0, 0.25, true);
  CHECK(route.fc1[0] == gate / 4);
  CHECK(route.fc1[64] == up / 4);
  CHECK(route.fc2[0] == rounded_to_io(route.activated[0] * 2, true));
}
