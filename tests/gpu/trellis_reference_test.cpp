// The naive GPU reference against the host's, which shares no text with it: every phase of every route.
#include <cmath>
#include <set>

#include "kernels/oracle/arguments.hpp"
#include "planner/core/text.hpp"
#include "runtime/oracle/half.hpp"
#include "runtime/oracle/trellis_reference.hpp"
#include "tests/gpu/gpu_tests.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

LaunchResolver& resolver() {
  static LaunchResolver all = gpu().resolver();
  return all;
}

template <class Arguments>
void launch(const KernelVariant& variant, const Arguments& arguments) {
  const ReadyKernel* kernel = must(resolver().find(variant, {}));
  CHECK(kernel->resources.spill_store_bytes + kernel->resources.spill_load_bytes == 0);
  must(gpu().launcher.launch(*kernel, {.x = 16}, arguments, nullptr));
}

// Values of one type in memory of the device.
template <class T>
class Room {
 public:
  explicit Room(i64 count)
      : count_(count),
        memory_(must(DeviceMemory::allocate(count * static_cast<i64>(sizeof(T)), "a test's values"))) {}
  explicit Room(const std::vector<T>& values) : Room(std::ssize(values)) {
    must(check_cuda(
        cudaMemcpy(memory_.data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
        "copying a test's values"));
  }
  T* get() const { return reinterpret_cast<T*>(memory_.data()); }
  std::vector<T> values() const {
    const auto bytes = must(bytes_at(memory_.data(), count_ * static_cast<i64>(sizeof(T))));
    std::vector<T> out(static_cast<std::size_t>(count_));
    std::copy_n(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(out.data()));
    return out;
  }

 private:
  i64 count_;
  DeviceMemory memory_;
};

struct Scales {
  double low, high;
};
Room<HalfBits> random_room(i64 count, i64 seed, RandomKind kind, Scales scales = {}) {
  Room<HalfBits> room(count);
  launch(kRandomFill, RandomFillArguments{.out = room.get(),
                                          .count = count,
                                          .width = count,
                                          .seed = seed,
                                          .kind = kind,
                                          .low = scales.low,
                                          .high = scales.high});
  return room;
}

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
  for (const ReferenceStep step :
       {ReferenceStep::decode, ReferenceStep::rotate_inputs, ReferenceStep::multiply_fc1,
        ReferenceStep::activate, ReferenceStep::rotate_activated, ReferenceStep::multiply_fc2,
        ReferenceStep::sum}) {
    args.step = step;
    launch(kTrellisReference, args);
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

TEST_CASE("comparing counts errors, what is no number, and words that differ from an earlier run") {
  constexpr i64 kHidden = 128;
  std::vector<float> found(2 * kHidden, 1.0f), first = found;
  std::vector<double> expected(2 * kHidden, 1.0);
  found[3] = 3.0f;
  expected[kHidden] = 0.0;
  found[kHidden + 1] = std::nanf("");
  found[kHidden + 2] = INFINITY;
  const Room<float> device_found(found), device_first(first);
  const Room<double> device_expected(expected);
  const Room<ComparedRow> rows(2);
  launch(kTrellisReference, TrellisReferenceArguments{.step = ReferenceStep::compare,
                                                      .hidden = kHidden,
                                                      .tokens = 2,
                                                      .output = device_expected.get(),
                                                      .found = device_found.get(),
                                                      .first = device_first.get(),
                                                      .rows = rows.get()});
  const auto compared = rows.values();
  CHECK(compared[0].squared_error == 4);
  CHECK(compared[0].squared_value == 127 + 9);
  CHECK(compared[0].squared_expected == 128);
  CHECK(compared[0].product == 127 + 3);
  CHECK(compared[0].non_finite == 0);
  CHECK(compared[0].different_words == 1);
  CHECK(compared[1].squared_error == 1);
  CHECK(compared[1].non_finite == 2);
  CHECK(compared[1].different_words == 2);
}

TEST_CASE("bytes in rows of routes that go nowhere are counted, and no others") {
  constexpr i64 kHidden = 128, kIntermediate = 128;
  const Room<int> experts(std::vector<int>{0, -1});
  std::vector<unsigned char> hidden_rows(2 * 2 * kHidden, 0x5A), activated_rows(2 * 2 * kIntermediate, 0x5A);
  hidden_rows[0] = 1;            // of the first route, which goes somewhere
  hidden_rows[2 * kHidden] = 1;  // of the second, in both tensors below
  activated_rows.back() = 1;
  const Room<unsigned char> gate(hidden_rows), up(hidden_rows), activated(activated_rows);
  const Room<unsigned long long> count(std::vector<unsigned long long>{0});
  launch(kTrellisReference, TrellisReferenceArguments{.step = ReferenceStep::find_masked_rows,
                                                      .hidden = kHidden,
                                                      .intermediate = kIntermediate,
                                                      .top_k = 2,
                                                      .tokens = 1,
                                                      .route_experts = experts.get(),
                                                      .rotation_a_gate = gate.get(),
                                                      .rotation_a_up = up.get(),
                                                      .intermediate_cache2 = activated.get(),
                                                      .poison = 0x5A,
                                                      .masked_bytes = count.get()});
  CHECK(count.values() == std::vector<unsigned long long>{3});
}
