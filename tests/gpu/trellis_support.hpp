// What the tests of Trellis kernels on a GPU share: layers, tokens, and what every launch has to come to.
#pragma once

#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "runtime/moe/trellis_kernels.hpp"
#include "runtime/oracle/half.hpp"
#include "runtime/oracle/trellis_reference.hpp"
#include "tests/gpu/moe_support.hpp"

namespace moeplan::test {

inline constexpr ArenaPattern kPoison{.poison = 0xFF, .seed = 0};  // as a half, and as a float: not a number

// ---- Shapes, weights and tokens: the same in every run. ----

struct LayerShape {
  const char* contract;
  i64 hidden, intermediate, experts, top_k, capacity;
  i64 router_experts;
  bool shares_rows;  // one row of suh and svh for all experts
  Codebook codebook = Codebook::mcg;
};

inline oracle::HalfBits random_half(Random& random, double low, double high) {
  const double size = low + (high - low) * static_cast<double>(random.in(0, 1 << 20)) / (1 << 20);
  return oracle::half_of(random.in(0, 1) ? -size : size);
}

inline std::vector<oracle::HalfBits> random_halves(Random& random, i64 count, double low, double high) {
  std::vector<oracle::HalfBits> halves(static_cast<std::size_t>(count));
  for (auto& half : halves) half = random_half(random, low, high);
  return halves;
}

inline oracle::MoeLayer layer_of(const LayerShape& s, i64 bits) {
  Random random;
  oracle::MoeLayer layer;
  layer.shape = {s.hidden, s.intermediate, s.experts, bits};
  layer.codebook = static_cast<oracle::Codebook>(s.codebook);
  const i64 words = s.experts * s.hidden * s.intermediate * bits / 16;
  layer.w13.resize(static_cast<std::size_t>(2 * words));
  layer.w2.resize(static_cast<std::size_t>(words));
  for (auto* tensor : {&layer.w13, &layer.w2})
    for (auto& word : *tensor) word = static_cast<std::uint16_t>(random.in(0, 0xFFFF));
  const i64 rows = s.shares_rows ? 1 : s.experts;
  // Sizes that leave gate, up and output near one.
  layer.gate_suh = random_halves(random, rows * s.hidden, 0.5, 1.5);
  layer.up_suh = random_halves(random, rows * s.hidden, 0.5, 1.5);
  layer.down_svh = random_halves(random, rows * s.hidden, 0.02, 0.06);
  for (i64 expert = 0; expert < s.experts; ++expert) {
    for (const double size : {0.03, 0.03, 0.5}) {
      const auto scale = random_halves(random, s.intermediate, size, 3 * size);
      layer.rotations.insert(layer.rotations.end(), scale.begin(), scale.end());
    }
  }
  return layer;
}

// Rows of x in the input type, and their values.
struct Tokens {
  std::vector<std::uint16_t> bits;
  std::vector<double> values;
};
inline Tokens tokens_of(const LayerShape& s, bool is_bfloat16) {
  Random random;
  Tokens tokens;
  for (i64 i = 0; i < s.capacity * s.hidden; ++i) {
    const double value = static_cast<double>(random.in(-2000, 2000)) / 1000;
    const std::uint16_t bits =
        is_bfloat16 ? oracle::bfloat16_of(static_cast<float>(value)) : oracle::half_of(value);
    tokens.bits.push_back(bits);
    tokens.values.push_back(is_bfloat16 ? oracle::value_of_bfloat16(bits) : oracle::value_of_half(bits));
  }
  return tokens;
}

// ---- One layer with its tokens and a routing: what every launch of it has to come to. ----

class Case {
 public:
  Case(const LayerShape& shape, i64 bits, bool is_bfloat16)
      : shape_(shape),
        layer_(layer_of(shape, bits)),
        reference_(layer_),
        tokens_(tokens_of(shape, is_bfloat16)),
        w13_(layer_.w13),
        w2_(layer_.w2),
        gate_suh_(layer_.gate_suh),
        up_suh_(layer_.up_suh),
        down_svh_(layer_.down_svh),
        rotations_(layer_.rotations),
        x_(tokens_.bits) {}

  TrellisWeights weights() const {
    return {.w13 = reinterpret_cast<const unsigned char*>(w13_.get()),
            .w2 = reinterpret_cast<const unsigned char*>(w2_.get()),
            .gate_suh = gate_suh_.get(),
            .up_suh = up_suh_.get(),
            .down_svh = down_svh_.get(),
            .intermediate_rotations = rotations_.get(),
            .shares_gate_suh = shape_.shares_rows,
            .shares_up_suh = shape_.shares_rows,
            .shares_down_svh = shape_.shares_rows};
  }
  const HalfBits* x() const { return x_.get(); }

  const oracle::RouteReference& route(i64 token, i64 expert) {
    auto [place, is_new] = routes_.try_emplace({token, expert});
    if (is_new)
      place->second = reference_.route(std::span(tokens_.values)
                                           .subspan(static_cast<std::size_t>(token * shape_.hidden),
                                                    static_cast<std::size_t>(shape_.hidden)),
                                       expert);
    return place->second;
  }

 private:
  LayerShape shape_;
  oracle::MoeLayer layer_;
  oracle::MoeReference reference_;
  Tokens tokens_;
  Uploaded<std::uint16_t> w13_, w2_;
  Uploaded<HalfBits> gate_suh_, up_suh_, down_svh_, rotations_;
  Uploaded<std::uint16_t> x_;
  std::map<std::pair<i64, i64>, oracle::RouteReference> routes_;
};

// Bytes of rows that every launch has to repeat: a row's do not depend on how many tokens there are, nor on
// the block size, where the kernel is the same.
class SameBytes {
 public:
  template <class T>
  void check(const std::string& what, i64 row, const std::vector<T>& values) {
    const auto* begin = reinterpret_cast<const unsigned char*>(values.data());
    Bytes bytes(begin, begin + values.size() * sizeof(T));
    const auto [place, is_new] = seen_.try_emplace({what, row}, bytes);
    if (!is_new && place->second != bytes && different_.empty()) different_ = concat(what, " row ", row);
  }
  void finish() const { CHECK(different_ == ""); }

  // The largest relative L2 distance of an output row from the other's.
  double output_distance(const SameBytes& other) const {
    double largest = 0;
    for (const auto& [row, bytes] : seen_) {
      const auto match = other.seen_.find(row);
      if (row.first != "output" || match == other.seen_.end()) continue;
      double squared = 0, squared_distance = 0;
      for (std::size_t at = 0; at < bytes.size(); at += sizeof(float)) {
        float own = 0, others = 0;
        std::memcpy(&own, bytes.data() + at, sizeof own);
        std::memcpy(&others, match->second.data() + at, sizeof others);
        squared += static_cast<double>(own) * static_cast<double>(own);
        squared_distance += std::pow(static_cast<double>(own) - static_cast<double>(others), 2);
      }
      if (squared > 0) largest = std::max(largest, std::sqrt(squared_distance / squared));
    }
    return largest;
  }

 private:
  std::map<std::pair<std::string, i64>, Bytes> seen_;
  std::string different_;
};

// The weights' expert of a route, or -1.
inline int expert_of(const LayerShape& s, const Routing& routing, i64 route) {
  const int expert = oracle::expert_of(routing.ids[static_cast<std::size_t>(route)], s.router_experts,
                                       routing.map_or_null());
  return expert < s.experts ? expert : -1;
}

inline std::set<i64> live_counts(i64 capacity) {
  std::set<i64> counts{1, 2, 7, 8, 9, 33, capacity - 1, capacity};
  std::erase_if(counts, [&](i64 tokens) { return tokens > capacity; });
  return counts;
}

}  // namespace moeplan::test
