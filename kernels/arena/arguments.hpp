// What fill.cu and scan.cu are launched with, and the bytes that they write and expect: one text for host and
// device.
#pragma once

#include "planner/core/integer.hpp"

namespace moeplan {

using u64 = unsigned long long;

constexpr i64 kArenaThreads = 256;  // a block

// Bytes [begin, end) of an allocation. A guard holds a pattern of its place; any other range one poison byte.
struct ArenaRange {
  i64 begin;
  i64 end;
  i64 is_guard;
};

// What one round writes. The last bit of the seed inverts the guards: of two rounds that differ in it alone,
// one at least sees a stray write, whatever bytes it wrote.
struct ArenaPattern {
  i64 poison;  // a byte
  i64 seed;
};

struct ArenaFillArguments {
  void* allocation;  // aligned to 16 bytes
  const ArenaRange* ranges;
  i64 range_count;
  ArenaPattern pattern;
};

constexpr i64 kNothingDiffers = 0x7fffffffffffffff;

// The bytes of a range that are not what its pattern says. Offsets count from the allocation's start.
struct ArenaDifference {
  i64 bytes = 0;
  i64 first = kNothingDiffers;
  i64 last = -1;
};

struct ArenaScanArguments {
  const void* allocation;  // aligned to 16 bytes
  const ArenaRange* ranges;
  i64 range_count;
  ArenaPattern pattern;
  ArenaDifference* differences;  // one a range
};

// Bytes that one thread moves at a time.
constexpr i64 kArenaVectorBytes = 16;

// The finaliser of SplitMix64: every bit of the word's place reaches every bit of its pattern, so neither a
// constant nor a copy of bytes nearby passes for a guard.
constexpr u64 guard_word(i64 word, i64 seed) {
  u64 mixed =
      static_cast<u64>(word) + (static_cast<u64>(seed) >> 1) * 0xd1342543de82ef95ull + 0x9e3779b97f4a7c15ull;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ull;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebull;
  mixed ^= mixed >> 31;
  return (seed & 1) != 0 ? ~mixed : mixed;
}

// The eight bytes at 8 * word, the lowest address in the lowest bits.
constexpr u64 expected_word(const ArenaRange& range, i64 word, const ArenaPattern& pattern) {
  return range.is_guard != 0 ? guard_word(word, pattern.seed)
                             : (static_cast<u64>(pattern.poison) & 0xff) * 0x0101010101010101ull;
}

constexpr u64 expected_byte(const ArenaRange& range, i64 offset, const ArenaPattern& pattern) {
  return expected_word(range, offset / 8, pattern) >> (offset % 8 * 8) & 0xff;
}

// A range is whole vectors with some single bytes before and behind.
struct RangeVectors {
  i64 begin;  // offset of the first vector, or of the range's end when it has none
  i64 end;
};
constexpr RangeVectors vectors_of(const ArenaRange& range) {
  const i64 begin = min_of(align_up(range.begin, kArenaVectorBytes), range.end);
  return {begin, max_of(range.end / kArenaVectorBytes * kArenaVectorBytes, begin)};
}

// Sets the top bit of every byte that is not zero.
constexpr u64 nonzero_bytes(u64 word) {
  constexpr u64 kLow = 0x7f7f7f7f7f7f7f7full;
  return (((word & kLow) + kLow) | word) & ~kLow;
}

}  // namespace moeplan
