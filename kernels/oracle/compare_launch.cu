// compare_launch: what a launch left, element by element. Its output with the reference's and with an earlier
// run's, a thread a row; and the rows of routes that go nowhere with the poison that they held before.
#include "kernels/oracle/arguments.hpp"
#include "kernels/oracle/numbers.cuh"

namespace moeplan {
namespace {

static_assert(kOracleThreads == THREADS, "host and device disagree about the threads of a block");

using Args = CompareArguments;

inline unsigned word_of(const Args& args, const void* values, i64 at) {
  return args.type == NumberType::float32 ? static_cast<const unsigned*>(values)[at]
                                          : static_cast<const HalfBits*>(values)[at];
}

inline double value_of_word(const Args& args, unsigned word) {
  if (args.type == NumberType::float32) return static_cast<double>(__builtin_bit_cast(float, word));
  const HalfBits bits = static_cast<HalfBits>(word);
  return args.type == NumberType::bfloat16 ? value_of_bfloat16(bits) : value_of_half(bits);
}

inline void compare_output(const Args& args, i64 token) {
  ComparedRow row = {};
  for (i64 at = token * args.hidden; at < (token + 1) * args.hidden; ++at) {
    const unsigned word = word_of(args, args.found, at);
    const double value = value_of_word(args, word), expected = args.expected[at];
    if (args.first != nullptr && word_of(args, args.first, at) != word) ++row.different_words;
    row.squared_expected += expected * expected;
    if (!(value - value == 0.0)) {
      ++row.non_finite;
      continue;
    }
    row.squared_error += (value - expected) * (value - expected);
    row.squared_value += value * value;
    row.product += value * expected;
  }
  args.rows[token] = row;
}

inline bool is_of_a_computed_route(const Args& args, i64 route) {
  return route < args.tokens * args.top_k && args.route_experts[route] >= 0;
}

// Byte `at` of every tensor, unless some route that is computed has it in its row.
inline void find_masked_bytes(const Args& args, i64 at) {
  unsigned long long changed = 0;
#pragma unroll
  for (int i = 0; i < kMostRouteTensors; ++i) {
    const RouteRows& rows = args.tensors[i];
    if (at >= args.tokens * args.top_k * rows.longest()) continue;
    if (is_of_a_computed_route(args, at / rows.row_bytes)) continue;
    if (is_of_a_computed_route(args, at / rows.other_row_bytes)) continue;
    changed += rows.bytes[at] != args.poison;
  }
  if (changed > 0) atomicAdd(args.masked_bytes, changed);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, 4)
    compare_launch(const __grid_constant__ CompareArguments args) {
  const i64 thread = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 threads = static_cast<i64>(gridDim.x) * blockDim.x;
  const i64 elements = elements_of(args);
  for (i64 at = thread; at < elements; at += threads) {
    if (args.step == CompareStep::output)
      compare_output(args, at);
    else
      find_masked_bytes(args, at);
  }
}

}  // namespace moeplan
