// The naive GPU reference against the host's, which shares no text with it: every phase of every route.
#include <cmath>
#include <set>

#include "planner/core/text.hpp"
#include "runtime/oracle/half.hpp"
#include "runtime/oracle/trellis_reference.hpp"
#include "tests/gpu/oracle_support.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

// Halves differ by no more than a step, and seldom: sums of doubles in another order round the other way.
void check_halves(std::string_view what, const std::vector<HalfBits>& found, i64 begin,
                  const std::vector<HalfBits>& expected) {
  INFO(what);
  double error = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double value = oracle::value_of_half(found.at(static_cast<std::size_t>(begin) + i));
    const double wanted = oracle::value_of_half(expected[i]);
    error += (value - wanted) * (value - wanted);
    size += wanted * wanted;
  }
  CHECK(std::sqrt(error) <= 2e-4 * std::sqrt(size));
}

void check_shape(i64 bits, Codebook codebook, bool is_bfloat16, bool shares_rows) {
  constexpr i64 kHidden = 256, kIntermediate = 128, kExperts = 3, kTokens = 3, kTopK = 2;
  constexpr i64 kRoutes = kTokens * kTopK, kMatrix = kExperts * kHidden * kIntermediate;
  const i64 words = kMatrix / 16 * bits, rows = shares_rows ? 1 : kExperts;
  const auto w13 = random_room(2 * words, 1, RandomKind::words),
             w2 = random_room(words, 2, RandomKind::words);
  const auto gate_suh = random_room(rows * kHidden, 3, RandomKind::half, {0.5, 1.5});
  const auto up_suh = random_room(rows * kHidden, 4, RandomKind::half, {0.5, 1.5});
  const auto down_svh = random_room(rows * kHidden, 5, RandomKind::half, {0.05, 0.15});
  const auto rotations = random_room(3 * kExperts * kIntermediate, 6, RandomKind::half, {0.03, 0.09});
  const auto x =
      random_room(kTokens * kHidden, 7, is_bfloat16 ? RandomKind::bfloat16 : RandomKind::half, {0.01, 2});
  const std::vector<int> experts = {2, 0, -1, 1, -1, -1};
  const std::vector<float> weights = {0.5f, 0.25f, 1, 0.125f, 1, 1};
  const Room<int> device_experts(experts);
  const Room<float> device_weights(weights);

  const Room<HalfBits> decoded(3 * kMatrix), rotated_gate(kRoutes * kHidden), rotated_up(kRoutes * kHidden);
  const Room<HalfBits> fc1(kRoutes * 2 * kIntermediate), activated(kRoutes * kIntermediate);
  const Room<HalfBits> fc2(kRoutes * kHidden);
  const Room<double> activated_values(kRoutes * kIntermediate), output(kTokens * kHidden);
  const i64 stride = shares_rows ? 0 : kHidden;
  TrellisReferenceArguments args{.step = {},
                                 .hidden = kHidden,
                                 .intermediate = kIntermediate,
                                 .experts = kExperts,
                                 .bits = bits,
                                 .top_k = kTopK,
                                 .tokens = kTokens,
                                 .codebook = codebook,
                                 .is_bfloat16 = is_bfloat16,
                                 .w13 = w13.get(),
                                 .w2 = w2.get(),
                                 .gate_suh = gate_suh.get(),
                                 .up_suh = up_suh.get(),
                                 .down_svh = down_svh.get(),
                                 .intermediate_rotations = rotations.get(),
                                 .gate_suh_stride = stride,
                                 .up_suh_stride = stride,
                                 .down_svh_stride = stride,
                                 .x = x.get(),
                                 .route_experts = device_experts.get(),
                                 .topk_weights = device_weights.get(),
                                 .weights = decoded.get(),
                                 .rotated_gate = rotated_gate.get(),
                                 .rotated_up = rotated_up.get(),
                                 .fc1 = fc1.get(),
                                 .activated_values = activated_values.get(),
                                 .activated = activated.get(),
                                 .fc2 = fc2.get(),
                                 .output = output.get()};
  for (const TrellisReferenceStep step :
       {TrellisReferenceStep::decode, TrellisReferenceStep::rotate_inputs, TrellisReferenceStep::multiply_fc1,
        TrellisReferenceStep::activate, TrellisReferenceStep::rotate_activated,
        TrellisReferenceStep::multiply_fc2, TrellisReferenceStep::sum}) {
    args.step = step;
    launch_oracle(kTrellisReference, args);
  }

  const oracle::MoeReference reference({.shape = {kHidden, kIntermediate, kExperts, bits},
                                        .w13 = w13.values(),
                                        .w2 = w2.values(),
                                        .gate_suh = gate_suh.values(),
                                        .up_suh = up_suh.values(),
                                        .down_svh = down_svh.values(),
                                        .rotations = rotations.values(),
                                        .codebook = static_cast<oracle::Codebook>(codebook)});
  // Bit by bit: decoding rounds nothing that could round otherwise.
  const auto all_decoded = decoded.values();
  const oracle::TrellisShape down{kIntermediate, kHidden, bits};
  const auto w2_words = w2.values();
  const auto last =
      oracle::decode_trellis(down, static_cast<oracle::Codebook>(codebook),
                             std::span(w2_words).subspan(static_cast<std::size_t>(2 * down.words()),
                                                         static_cast<std::size_t>(down.words())));
  i64 different = 0;
  for (std::size_t i = 0; i < last.size(); ++i)
    different += oracle::value_of_half(all_decoded[all_decoded.size() - last.size() + i]) !=
                 static_cast<double>(last[i]);
  CHECK(different == 0);

  const auto found_x = x.values();
  const auto found_output = output.values();
  for (i64 token = 0; token < kTokens; ++token) {
    std::vector<double> row, expected(kHidden);
    for (i64 i = 0; i < kHidden; ++i) {
      const HalfBits bits_of_x = found_x[static_cast<std::size_t>(token * kHidden + i)];
      row.push_back(is_bfloat16 ? oracle::value_of_bfloat16(bits_of_x) : oracle::value_of_half(bits_of_x));
      CHECK(std::abs(row.back()) >= 0.009);
      CHECK(std::abs(row.back()) < 2);
    }
    for (i64 slot = 0; slot < kTopK; ++slot) {
      const i64 route = token * kTopK + slot;
      const int expert = experts[static_cast<std::size_t>(route)];
      if (expert < 0) continue;
      const oracle::RouteReference wanted = reference.route(row, expert);
      check_halves("rotated_gate", rotated_gate.values(), route * kHidden, wanted.rotated_gate);
      check_halves("rotated_up", rotated_up.values(), route * kHidden, wanted.rotated_up);
      check_halves("fc1", fc1.values(), route * 2 * kIntermediate, wanted.fc1);
      check_halves("activated", activated.values(), route * kIntermediate, wanted.activated);
      check_halves("fc2", fc2.values(), route * kHidden, wanted.fc2);
      for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] += static_cast<double>(weights[static_cast<std::size_t>(route)]) * wanted.output[i];
    }
    double error = 0, size = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double difference = found_output[static_cast<std::size_t>(token * kHidden) + i] - expected[i];
      error += difference * difference;
      size += expected[i] * expected[i];
    }
    CHECK(std::sqrt(error) <= 2e-4 * std::sqrt(size));
  }
}

}  // namespace

TEST_CASE("the GPU's reference agrees with the host's in every phase") {
  for (i64 bits = kFewestTrellisBits; bits <= kMostTrellisBits; ++bits) {
    INFO(concat(bits, " bits"));
    check_shape(bits, Codebook::mcg, bits % 2 == 0, bits == 5);
  }
  check_shape(3, Codebook::three_instructions, false, false);
  check_shape(4, Codebook::mul1, true, false);
}
