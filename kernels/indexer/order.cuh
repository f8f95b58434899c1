// The order in which tokens are selected: by logit, then by index, the lower one first. A logit becomes a key
// that compares as an unsigned number; key and index together never tie, so that every selection is exact and
// the same in every run.
#pragma once

#include "kernels/indexer/instructions.cuh"

namespace moeplan {

using ptx::u32;
using ptx::u64;

// The key of what is not there: behind every other.
constexpr u32 kNoKey = 0;
constexpr u32 kNanKey = 0xFFFFFFFFu;

// Of a finite logit.
inline u32 finite_key_of(float logit) {
  const u32 bits = ptx::bits_of(logit + 0.0f);
  return bits ^ (static_cast<u32>(static_cast<int>(bits) >> 31) | 0x80000000u);
}
// NaN comes first, negative zero ties with zero, and minus infinity, which marks tokens without a page,
// is no candidate.
inline u32 key_of(float logit) {
  const u32 bits = ptx::bits_of(logit + 0.0f);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return kNanKey;
  if (bits == 0xFF800000u) return kNoKey;
  return finite_key_of(logit);
}
inline float logit_of(u32 key) { return ptx::float_of(key >> 31 ? key & 0x7FFFFFFFu : ~key); }

// Compares as key first, then lower indices before higher ones.
inline u64 rank_of(u32 key, int index) { return static_cast<u64>(key) << 32 | ~static_cast<u32>(index); }

inline float infinity() { return ptx::float_of(0x7F800000u); }
inline float minus_infinity() { return ptx::float_of(0xFF800000u); }
inline float least_finite() { return ptx::float_of(0xFF7FFFFFu); }

}  // namespace moeplan
