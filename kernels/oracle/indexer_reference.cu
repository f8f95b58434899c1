// indexer_reference: an indexer's logits once more, for caches that are too large for a host. Written from
// the formula and sharing no text with the kernels it judges: numbers decoded bit by bit, sums in doubles, a
// thread a token.
//
//   logit[r, t] = scale[t] * sum over h of weights[r, h] * max(0, sum over d of q[r, h, d] * k[t, d])
#include "kernels/oracle/indexer_arguments.hpp"

namespace moeplan {
namespace {

static_assert(kIndexerOracleThreads == THREADS, "host and device disagree about the threads of a block");

// Four bits of exponent, biased by 7; three of mantissa; no infinities.
inline double value_of(unsigned char e4m3) {
  const int exponent = e4m3 >> 3 & 15, mantissa = e4m3 & 7;
  if (exponent == 15 && mantissa == 7) return __builtin_bit_cast(double, 0x7ff8ull << 48);
  double size = exponent == 0 ? mantissa : 8 + mantissa;  // in units of the last place
  for (int i = exponent == 0 ? 1 : exponent; i < 10; ++i) size *= 0.5;
  for (int i = 10; i < exponent; ++i) size *= 2.0;
  return e4m3 & 0x80 ? -size : size;
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kIndexerOracleThreads)
    indexer_reference(const __grid_constant__ IndexerReferenceArguments args) {
  const i64 tokens = args.table_width * 64;
  for (i64 item = static_cast<i64>(blockIdx.x) * kIndexerOracleThreads + threadIdx.x;
       item < args.rows * tokens; item += static_cast<i64>(gridDim.x) * kIndexerOracleThreads) {
    const i64 row = item / tokens, token = item % tokens;
    const i64 page = args.page_table[row * args.table_stride + token / 64];
    if (token >= args.lengths[row] || page < 0) {
      args.logits[item] = __builtin_bit_cast(double, 0xfff0ull << 48);
      args.magnitudes[item] = 0.0;
      continue;
    }
    const unsigned char* at = args.cache + page * args.page_stride;
    double sum = 0.0, magnitude = 0.0;
    for (i64 head = 0; head < args.heads; ++head) {
      double dot = 0.0;
      for (int d = 0; d < 128; ++d)
        dot += value_of(args.q[(row * args.heads + head) * 128 + d]) * value_of(at[token % 64 * 128 + d]);
      const double weight = args.weights[row * args.heads + head];
      const double addend = weight * (dot < 0.0 ? 0.0 : dot);
      sum += addend;
      magnitude += addend < 0.0 ? -addend : addend;
    }
    const double scale = reinterpret_cast<const float*>(at + 64 * 128)[token % 64];
    args.logits[item] = scale * sum;
    args.magnitudes[item] = scale * magnitude;
  }
}

}  // namespace moeplan
