#include "runtime/oracle/trellis_reference.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "planner/core/check.hpp"
#include "runtime/oracle/half.hpp"

namespace moeplan::oracle {
namespace {

constexpr i64 kBlock = 128;

// Bit `at` of a tile's stream: words are taken in pairs, the second of a pair first, each from its highest
// bit down.
unsigned stream_bit(std::span<const std::uint16_t> words, std::size_t at) {
  const std::size_t pair = at / 32, in_pair = at % 32;
  const std::uint16_t word = words[2 * pair + (in_pair < 16 ? 1 : 0)];
  return word >> (15 - in_pair % 16) & 1u;
}

// H[i][j] of the Sylvester matrix is -1 to the power of the bits that i and j have in common.
double hadamard_entry(i64 i, i64 j) { return std::popcount(static_cast<std::uint64_t>(i & j)) % 2 ? -1 : 1; }

std::vector<double> values_of(std::span<const HalfBits> halves) {
  std::vector<double> values(halves.size());
  std::ranges::transform(halves, values.begin(), value_of_half);
  return values;
}

std::vector<HalfBits> halves_of(std::span<const double> values) {
  std::vector<HalfBits> halves(values.size());
  std::ranges::transform(values, halves.begin(), half_of);
  return halves;
}

}  // namespace

HalfBits trellis_weight(Codebook codebook, std::uint16_t state) {
  const std::uint32_t x = state;
  if (codebook == Codebook::mul1) {
    const std::uint32_t hash = x * 0x83DCD12Du;
    std::uint32_t sum = 0;
    for (int byte = 0; byte < 4; ++byte) sum += hash >> 8 * byte & 0xFF;
    return half_of(value_of_half(static_cast<HalfBits>(0x6400 + sum)) * value_of_half(0x1EEE) +
                   value_of_half(0xC931));
  }
  std::uint32_t hash = codebook == Codebook::mcg ? x * 0xCBAC1FEDu : x * 89226354u + 64248484u;
  hash = (hash & 0x8FFF8FFFu) ^ 0x3B603B60u;
  return half_of(value_of_half(static_cast<HalfBits>(hash & 0xFFFF)) +
                 value_of_half(static_cast<HalfBits>(hash >> 16)));
}

std::array<std::uint16_t, 256> trellis_states(std::span<const std::uint16_t> words) {
  const std::size_t length = 16 * words.size(), bits = words.size() / 16;
  std::array<std::uint16_t, 256> states{};
  for (std::size_t t = 0; t < states.size(); ++t) {
    const std::size_t end = (t + 1) * bits;
    unsigned state = 0;
    for (std::size_t i = 0; i < 16; ++i)
      state = state << 1 | stream_bit(words, (end + length - 16 + i) % length);
    states[t] = static_cast<std::uint16_t>(state);
  }
  return states;
}

TilePlace trellis_place(int t) {
  const int lane = t / 8, j = t % 8;
  return {2 * (lane % 4) + j % 2 + 8 * (j / 2 % 2), lane / 4 + 8 * (j / 4)};
}

std::vector<float> decode_trellis(const TrellisShape& shape, Codebook codebook,
                                  std::span<const std::uint16_t> words) {
  MOEPLAN_CHECK(std::ssize(words) == shape.words(), "as many words as the layer's shape says");
  std::vector<float> weights(static_cast<std::size_t>(shape.inputs * shape.outputs));
  const i64 tile_words = 16 * shape.bits;
  for (i64 tile_k = 0; tile_k < shape.inputs / 16; ++tile_k) {
    for (i64 tile_n = 0; tile_n < shape.outputs / 16; ++tile_n) {
      const i64 tile = tile_k * (shape.outputs / 16) + tile_n;
      const auto states = trellis_states(
          words.subspan(static_cast<std::size_t>(tile * tile_words), static_cast<std::size_t>(tile_words)));
      for (int t = 0; t < 256; ++t) {
        const TilePlace at = trellis_place(t);
        const i64 index = (16 * tile_k + at.k) * shape.outputs + 16 * tile_n + at.n;
        weights[static_cast<std::size_t>(index)] =
            static_cast<float>(value_of_half(trellis_weight(codebook, states[static_cast<std::size_t>(t)])));
      }
    }
  }
  return weights;
}

void rotate(std::span<double> values) {
  MOEPLAN_CHECK(values.size() % kBlock == 0, "whole blocks of 128");
  std::array<double, kBlock> block;
  for (std::size_t first = 0; first < values.size(); first += kBlock) {
    const auto part = values.subspan(first, kBlock);
    for (i64 i = 0; i < kBlock; ++i) {
      double sum = 0;
      for (i64 j = 0; j < kBlock; ++j) sum += hadamard_entry(i, j) * part[static_cast<std::size_t>(j)];
      block[static_cast<std::size_t>(i)] = sum / std::sqrt(static_cast<double>(kBlock));
    }
    std::ranges::copy(block, part.begin());
  }
}

std::vector<HalfBits> rotated_input(std::span<const double> x, std::span<const HalfBits> suh) {
  std::vector<double> values(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) values[i] = rounded_to_half(x[i] * value_of_half(suh[i]));
  rotate(values);
  return halves_of(values);
}

std::vector<double> product(std::span<const HalfBits> x, std::span<const float> weights, i64 outputs) {
  std::vector<double> sums(static_cast<std::size_t>(outputs));
  const float* row = weights.data();
  for (const HalfBits half : x) {
    const double factor = value_of_half(half);
    for (double& sum : sums) sum += factor * static_cast<double>(*row++);
  }
  return sums;
}

std::vector<double> rotated_output(std::span<const double> z, std::span<const HalfBits> svh) {
  std::vector<double> values(z.begin(), z.end());
  rotate(values);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= value_of_half(svh[i]);
  return values;
}

int expert_of(i64 id, i64 experts, const std::vector<int>* map) {
  if (id < 0 || id >= experts) return -1;
  const i64 expert = map ? map->at(static_cast<std::size_t>(id)) : id;
  return expert >= 0 && expert < experts ? static_cast<int>(expert) : -1;
}

PackedRoutes pack_routes(std::span<const i64> ids, i64 experts, const std::vector<int>* map, i64 block,
                         i64 slots, i64 blocks) {
  PackedRoutes packed;
  packed.route_indices.assign(static_cast<std::size_t>(slots), static_cast<int>(ids.size()));
  packed.block_experts.assign(static_cast<std::size_t>(blocks), -1);
  for (int expert = 0; expert < experts; ++expert) {
    const int offset = packed.count;
    int count = 0;
    for (std::size_t route = 0; route < ids.size(); ++route) {
      if (expert_of(ids[route], experts, map) != expert) continue;
      packed.route_indices.at(static_cast<std::size_t>(offset + count++)) = static_cast<int>(route);
    }
    packed.count += static_cast<int>(align_up(count, block));
    for (i64 at = offset; at < packed.count; at += block)
      packed.block_experts.at(static_cast<std::size_t>(at / block)) = expert;
    packed.offsets.push_back(offset + count);
    packed.counts.push_back(count);
  }
  packed.offsets.push_back(packed.count);
  return packed;
}

MoeReference::MoeReference(MoeLayer layer) : layer_(std::move(layer)) {
  const MoeShape& s = layer_.shape;
  const TrellisShape in{s.hidden, s.intermediate, s.bits}, out{s.intermediate, s.hidden, s.bits};
  const auto decode = [&](const TrellisShape& shape, const std::vector<std::uint16_t>& words, i64 index) {
    const auto part = std::span(words).subspan(static_cast<std::size_t>(index * shape.words()),
                                               static_cast<std::size_t>(shape.words()));
    return decode_trellis(shape, layer_.codebook, part);
  };
  for (i64 expert = 0; expert < s.experts; ++expert) {
    gate_.push_back(decode(in, layer_.w13, expert));
    up_.push_back(decode(in, layer_.w13, s.experts + expert));
    down_.push_back(decode(out, layer_.w2, expert));
  }
}

std::span<const HalfBits> MoeReference::row(const std::vector<HalfBits>& table, i64 expert, i64 width) const {
  const i64 index = std::ssize(table) == width ? 0 : expert;
  return std::span(table).subspan(static_cast<std::size_t>(index * width), static_cast<std::size_t>(width));
}

RouteReference MoeReference::route(std::span<const double> x, i64 expert) const {
  const auto width = static_cast<std::size_t>(layer_.shape.intermediate);
  const auto at = static_cast<std::size_t>(expert);
  std::vector<double> halves(x.size());
  std::ranges::transform(x, halves.begin(), rounded_to_half);

  RouteReference r;
  r.rotated_gate = rotated_input(halves, row(layer_.gate_suh, expert, layer_.shape.hidden));
  r.rotated_up = rotated_input(halves, row(layer_.up_suh, expert, layer_.shape.hidden));

  r.fc1 = halves_of(product(r.rotated_gate, gate_[at], layer_.shape.intermediate));
  const auto up = halves_of(product(r.rotated_up, up_[at], layer_.shape.intermediate));
  r.fc1.insert(r.fc1.end(), up.begin(), up.end());

  const auto scales = std::span(layer_.rotations).subspan(3 * width * at, 3 * width);
  const auto gate = rotated_output(values_of(std::span(r.fc1).first(width)), scales.first(width));
  const auto raised = rotated_output(values_of(std::span(r.fc1).last(width)), scales.subspan(width, width));
  std::vector<double> activated(width);
  for (std::size_t i = 0; i < width; ++i)
    activated[i] = gate[i] / (1 + std::exp(-gate[i])) * raised[i] * value_of_half(scales[2 * width + i]);
  rotate(activated);
  r.activated = halves_of(activated);

  r.fc2 = halves_of(product(r.activated, down_[at], layer_.shape.hidden));
  r.output = rotated_output(values_of(r.fc2), row(layer_.down_svh, expert, layer_.shape.hidden));
  return r;
}

}  // namespace moeplan::oracle
