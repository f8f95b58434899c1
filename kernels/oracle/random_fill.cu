// random_fill: the i-th element, counted over rows of `width`, is a function of the seed and i alone, so that
// a layer is the same in every run.
#include "kernels/oracle/arguments.hpp"

namespace moeplan {
namespace {

static_assert(kOracleThreads == THREADS, "host and device disagree about the threads of a block");

// The finaliser of SplitMix64.
inline unsigned long long hashed(unsigned long long value) {
  value += 0x9e3779b97f4a7c15ull;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
  return value ^ (value >> 31);
}

// Rounds towards zero; normal halves.
inline HalfBits half_towards_zero(double value) {
  const unsigned long long bits = __builtin_bit_cast(unsigned long long, value);
  const long long exponent = static_cast<long long>(bits >> 52 & 0x7ff) - 1023 + 15;
  return static_cast<HalfBits>((bits >> 63) << 15 | static_cast<unsigned long long>(exponent) << 10 |
                               (bits >> 42 & 0x3ff));
}

inline HalfBits bfloat16_towards_zero(double value) {
  return static_cast<HalfBits>(__builtin_bit_cast(unsigned, static_cast<float>(value)) >> 16);
}

inline unsigned scale_byte(const RandomFillArguments& args, unsigned long long random) {
  const unsigned long long low = static_cast<unsigned long long>(args.low);
  const unsigned long long count = static_cast<unsigned long long>(args.high) - low;
  return (random & 15u) == 0 ? 0u : static_cast<unsigned>(low + (random >> 4 & 0xffffu) % count);
}

inline HalfBits element(const RandomFillArguments& args, unsigned long long random) {
  if (args.kind == RandomKind::words) return static_cast<HalfBits>(random);
  if (args.kind == RandomKind::scale_bytes)
    return static_cast<HalfBits>(scale_byte(args, random) | scale_byte(args, random >> 32) << 8);
  const double unit = static_cast<double>(random >> 12) / static_cast<double>(1ull << 52);
  const double size = args.low + (args.high - args.low) * unit;
  const double value = (random & 1) != 0 ? -size : size;
  return args.kind == RandomKind::half ? half_towards_zero(value) : bfloat16_towards_zero(value);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS)
    random_fill(const __grid_constant__ RandomFillArguments args) {
  const i64 thread = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x;
  const i64 threads = static_cast<i64>(gridDim.x) * blockDim.x;
  const unsigned long long start = hashed(static_cast<unsigned long long>(args.seed));
  for (i64 i = thread; i < args.count; i += threads)
    args.out[i / args.width * args.pitch + i % args.width] =
        element(args, hashed(start + static_cast<unsigned long long>(i)));
}

}  // namespace moeplan
