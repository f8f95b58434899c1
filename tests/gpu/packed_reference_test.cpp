// The naive GPU reference of packed NVFP4 layers against the host's, which shares no text with it: every
// weight and every phase of every route.
#include <cmath>

#include "planner/core/text.hpp"
#include "runtime/oracle/half.hpp"
#include "runtime/oracle/packed_reference.hpp"
#include "tests/gpu/oracle_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

constexpr i64 kHidden = 128, kIntermediate = 64, kExperts = 3, kTokens = 3, kTopK = 2;
constexpr i64 kRoutes = kTokens * kTopK, kMatrix = kHidden * kIntermediate;

// A matrix of expert number `expert`, of those that lie in `words` and `scales`.
oracle::PackedMatrix matrix_of(const std::vector<HalfBits>& words, const std::vector<HalfBits>& scales,
                               i64 expert, i64 inputs, i64 outputs) {
  oracle::PackedMatrix matrix{inputs, outputs, {}, {}};
  const i64 size = inputs * outputs;
  for (i64 i = expert * size / 8; i < (expert + 1) * size / 8; ++i) {
    const auto at = static_cast<std::size_t>(2 * i);
    matrix.words.push_back(words.at(at) | static_cast<std::uint32_t>(words.at(at + 1)) << 16);
  }
  for (i64 i = expert * size / 16; i < (expert + 1) * size / 16; ++i)
    matrix.scales.push_back(
        static_cast<std::uint8_t>(scales.at(static_cast<std::size_t>(i / 2)) >> 8 * (i % 2)));
  return matrix;
}

class Numbers {
 public:
  explicit Numbers(bool is_bfloat16) : is_bfloat16_(is_bfloat16) {}

  double value(HalfBits bits) const {
    return is_bfloat16_ ? oracle::value_of_bfloat16(bits) : oracle::value_of_half(bits);
  }
  // They differ by no more than a step, and seldom: sums of doubles in another order round the other way.
  void check(std::string_view what, const std::vector<HalfBits>& found, i64 begin,
             const std::vector<double>& expected) const {
    INFO(what);
    double error = 0, size = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double off = value(found.at(static_cast<std::size_t>(begin) + i)) - expected[i];
      error += off * off;
      size += expected[i] * expected[i];
    }
    CHECK(size > 0);
    CHECK(std::sqrt(error) <= (is_bfloat16_ ? 1e-3 : 2e-4) * std::sqrt(size));
  }

 private:
  bool is_bfloat16_;
};

void check_layer(bool is_bfloat16, bool weights_on_input) {
  INFO(concat(is_bfloat16 ? "bf16" : "fp16", weights_on_input ? ", weights on the input" : ""));
  const Numbers numbers(is_bfloat16);
  const double raised = is_bfloat16 ? 0x30 : 0;
  const Scales scale_bytes{0xA0 + raised, 0xC0 + raised};
  const auto w13 = random_room(kExperts * 2 * kMatrix / 4, 1, RandomKind::words);
  const auto w2 = random_room(kExperts * kMatrix / 4, 2, RandomKind::words);
  const auto w13_scales = random_room(kExperts * 2 * kMatrix / 32, 3, RandomKind::scale_bytes, scale_bytes);
  const auto w2_scales = random_room(kExperts * kMatrix / 32, 4, RandomKind::scale_bytes, scale_bytes);
  const auto x =
      random_room(kTokens * kHidden, 5, is_bfloat16 ? RandomKind::bfloat16 : RandomKind::half, {0.01, 2});
  const double unit = is_bfloat16 ? 1.0 / 64 : 1;
  const std::vector<double> w13_globals = {0.02 * unit, 0.03 * unit, 0.01 * unit};
  const std::vector<double> w2_globals = {0.05 * unit, 0.02 * unit, 0.04 * unit};
  const std::vector<int> experts = {2, 0, -1, 1, -1, -1};
  const std::vector<float> weights = {0.5f, 0.25f, 1, 0.125f, 1, 1};
  const Room<double> device_w13_globals(w13_globals), device_w2_globals(w2_globals);
  const Room<int> device_experts(experts);
  const Room<float> device_weights(weights);
  const Room<HalfBits> decoded(kExperts * 3 * kMatrix), fc1(kRoutes * 2 * kIntermediate);
  const Room<HalfBits> activated(kRoutes * kIntermediate), fc2(kRoutes * kHidden);
  const Room<double> output(kTokens * kHidden);
  const auto bytes = [](const Room<HalfBits>& room) {
    return reinterpret_cast<const unsigned char*>(room.get());
  };
  PackedReferenceArguments args{.step = {},
                                .hidden = kHidden,
                                .intermediate = kIntermediate,
                                .experts = kExperts,
                                .top_k = kTopK,
                                .tokens = kTokens,
                                .is_bfloat16 = is_bfloat16,
                                .weights_on_input = weights_on_input,
                                .w13 = bytes(w13),
                                .w2 = bytes(w2),
                                .w13_scales = bytes(w13_scales),
                                .w2_scales = bytes(w2_scales),
                                .w13_globals = device_w13_globals.get(),
                                .w2_globals = device_w2_globals.get(),
                                .x = x.get(),
                                .route_experts = device_experts.get(),
                                .topk_weights = device_weights.get(),
                                .weights = decoded.get(),
                                .fc1 = fc1.get(),
                                .activated = activated.get(),
                                .fc2 = fc2.get(),
                                .output = output.get()};
  for (const auto step :
       {PackedReferenceStep::decode, PackedReferenceStep::multiply_fc1, PackedReferenceStep::activate,
        PackedReferenceStep::multiply_fc2, PackedReferenceStep::sum}) {
    args.step = step;
    launch_oracle(kPackedReference, args);
  }

  oracle::PackedLayer layer{.hidden = kHidden,
                            .intermediate = kIntermediate,
                            .experts = kExperts,
                            .is_bfloat16 = is_bfloat16,
                            .w13_globals = w13_globals,
                            .w2_globals = w2_globals};
  for (i64 expert = 0; expert < kExperts; ++expert) {
    layer.w13.push_back(matrix_of(w13.values(), w13_scales.values(), expert, kHidden, 2 * kIntermediate));
    layer.w2.push_back(matrix_of(w2.values(), w2_scales.values(), expert, kIntermediate, kHidden));
  }
  // Weight by weight: nothing is rounded.
  const auto all_decoded = decoded.values();
  std::size_t place = 0;
  i64 different = 0, zero_scales = 0;
  for (const auto* matrices : {&layer.w13, &layer.w2}) {
    for (const oracle::PackedMatrix& matrix : *matrices) {
      for (const double weight : oracle::unpack_nvfp4(matrix))
        different += oracle::value_of_half(all_decoded.at(place++)) != weight;
      for (const std::uint8_t scale : matrix.scales) {
        zero_scales += scale == 0;
        CHECK((scale == 0 || (scale >= scale_bytes.low && scale < scale_bytes.high)));
      }
    }
  }
  CHECK(place == all_decoded.size());
  CHECK(different == 0);
  CHECK(zero_scales > 0);

  const oracle::PackedReference reference(std::move(layer));
  const auto found_x = x.values();
  const auto found_output = output.values();
  for (i64 token = 0; token < kTokens; ++token) {
    std::vector<double> row, expected(kHidden);
    for (i64 i = 0; i < kHidden; ++i)
      row.push_back(numbers.value(found_x[static_cast<std::size_t>(token * kHidden + i)]));
    for (i64 slot = 0; slot < kTopK; ++slot) {
      const i64 route = token * kTopK + slot;
      const auto at = static_cast<std::size_t>(route);
      if (experts[at] < 0) continue;
      const auto wanted =
          reference.route(row, experts[at], static_cast<double>(weights[at]), weights_on_input);
      numbers.check("fc1", fc1.values(), route * 2 * kIntermediate, wanted.fc1);
      numbers.check("activated", activated.values(), route * kIntermediate, wanted.activated);
      numbers.check("fc2", fc2.values(), route * kHidden, wanted.fc2);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += wanted.fc2[i];
    }
    double error = 0, size = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double off = found_output[static_cast<std::size_t>(token * kHidden) + i] - expected[i];
      error += off * off;
      size += expected[i] * expected[i];
    }
    CHECK(std::sqrt(error) <= (is_bfloat16 ? 1e-3 : 2e-4) * std::sqrt(size));
  }
}

}  // namespace

TEST_CASE("the GPU's reference of packed layers agrees with the host's in every weight and phase") {
  for (const bool is_bfloat16 : {false, true})
    for (const bool weights_on_input : {false, true}) check_layer(is_bfloat16, weights_on_input);
}
