// The reference of Trellis layers against tiles and a layer recorded from the original kernels.
#include "runtime/oracle/trellis_reference.hpp"

#include <cmath>
#include <map>

#include "runtime/jit/digest.hpp"
#include "runtime/oracle/half.hpp"
#include "tests/catch.hpp"
#include "tests/random.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using namespace moeplan::test;
using namespace moeplan::oracle;

namespace {

const Json& golden() {
  static const Json recorded = Json::parse(read_source("tests/golden/trellis.json"));
  return recorded;
}

Codebook codebook_of(const Json& json) {
  static const std::map<std::string, Codebook> names = {
      {"3inst", Codebook::three_instructions}, {"mcg", Codebook::mcg}, {"mul1", Codebook::mul1}};
  return names.at(json.get<std::string>());
}

std::vector<std::uint16_t> words_of(const Json& json) { return json.get<std::vector<std::uint16_t>>(); }

double relative_error(const std::vector<double>& values, const std::vector<double>& expected) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    error += (values[i] - expected[i]) * (values[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(error / size);
}

}  // namespace

TEST_CASE("every half is its own value, and values between two halves round to the even one") {
  for (int bits = 0; bits < 0x7C00; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const double value = value_of_half(half);
    REQUIRE(half_of(value) == half);
    REQUIRE(half_of(-value) == (half | 0x8000));
    if (bits + 1 == 0x7C00) continue;
    const double next = value_of_half(static_cast<std::uint16_t>(bits + 1));
    const double middle = (value + next) / 2;
    REQUIRE(half_of(middle) == bits + bits % 2);
    REQUIRE(half_of(std::nextafter(middle, value)) == bits);
    REQUIRE(half_of(std::nextafter(middle, next)) == bits + 1);
  }
  CHECK(half_of(65519.9) == 0x7BFF);
  CHECK(half_of(65520) == 0x7C00);
}

TEST_CASE("recorded tiles of 1 to 8 bits and three codebooks decode bit for bit") {
  REQUIRE(golden()["tiles"].size() == 24);
  for (const Json& tile : golden()["tiles"]) {
    const Codebook codebook = codebook_of(tile["codebook"]);
    const auto states = trellis_states(words_of(tile["words"]));
    const auto expected = words_of(tile["weights"]);
    REQUIRE(std::vector<std::uint16_t>(states.begin(), states.end()) == words_of(tile["states"]));
    for (int t = 0; t < 256; ++t) {
      const TilePlace at = trellis_place(t);
      REQUIRE(trellis_weight(codebook, states[static_cast<std::size_t>(t)]) ==
              expected[static_cast<std::size_t>(16 * at.k + at.n)]);
    }
  }
}

TEST_CASE("every state of every codebook stands for the recorded half") {
  for (const Json& spot : golden()["states"])
    CHECK(trellis_weight(codebook_of(spot["codebook"]), spot["state"].get<std::uint16_t>()) ==
          spot["half"].get<std::uint16_t>());
  for (const auto& [name, table] : golden()["tables"].items()) {
    std::string bytes;
    for (int state = 0; state < 65536; ++state) {
      const HalfBits half = trellis_weight(codebook_of(Json(name)), static_cast<std::uint16_t>(state));
      bytes += static_cast<char>(half & 0xFF);
      bytes += static_cast<char>(half >> 8);
    }
    CHECK(sha256_hex(bytes) == table["sha256"].get<std::string>());
  }
}

TEST_CASE("a recorded layer has the same rotated input bit for bit and the same output to 1e-6") {
  const Json& layer = golden()["linear"];
  const TrellisShape shape{layer["inputs"], layer["outputs"], layer["bits"]};
  const auto weights = decode_trellis(shape, codebook_of(layer["codebook"]), words_of(layer["words"]));
  const auto x = words_of(layer["x"]), suh = words_of(layer["suh"]), svh = words_of(layer["svh"]);
  std::vector<HalfBits> rotated;
  std::vector<double> y;
  for (i64 row = 0; row < layer["rows"].get<i64>(); ++row) {
    std::vector<double> values;
    for (i64 i = 0; i < shape.inputs; ++i)
      values.push_back(value_of_half(x[static_cast<std::size_t>(row * shape.inputs + i)]));
    const auto input = rotated_input(values, suh);
    rotated.insert(rotated.end(), input.begin(), input.end());
    const auto output = rotated_output(product(input, weights, shape.outputs), svh);
    y.insert(y.end(), output.begin(), output.end());
  }
  CHECK(rotated == words_of(layer["rotated_x"]));
  CHECK(relative_error(y, layer["y"].get<std::vector<double>>()) < 1e-6);
}

TEST_CASE("packed routes hold every valid route once, in blocks of its expert") {
  Random random;
  for (int i = 0; i < 300; ++i) {
    const i64 experts = random.in(1, 20), block = random.of({8, 16, 32, 48, 64});
    std::vector<int> map;
    for (i64 e = 0; e < experts; ++e) map.push_back(static_cast<int>(random.in(-1, experts)));
    std::vector<i64> ids;
    for (i64 r = random.in(0, 100); r > 0; --r) ids.push_back(random.in(-2, experts + 1));
    const i64 slots = std::ssize(ids) + experts * block;
    const auto* used_map = i % 2 ? &map : nullptr;
    const PackedRoutes packed = pack_routes(ids, experts, used_map, block, slots, slots / block);

    std::vector<int> seen(ids.size());
    for (i64 slot = 0; slot < slots; ++slot) {
      const auto route = static_cast<std::size_t>(packed.route_indices[static_cast<std::size_t>(slot)]);
      if (route == ids.size()) continue;
      REQUIRE(slot < packed.count);
      REQUIRE(packed.block_experts[static_cast<std::size_t>(slot / block)] ==
              expert_of(ids[route], experts, used_map));
      ++seen[route];
    }
    for (std::size_t route = 0; route < ids.size(); ++route)
      REQUIRE(seen[route] == (expert_of(ids[route], experts, used_map) >= 0));
    REQUIRE(packed.count % block == 0);
    REQUIRE(packed.offsets.back() == packed.count);
  }
}
