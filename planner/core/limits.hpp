// Upper bounds of every input, chosen so that no later product leaves 63 bits. The readers check them before
// anything is computed; tests/property/limits_test.cpp recomputes the extremes in 128 bits.
#pragma once

#include "planner/core/integer.hpp"

namespace moeplan {

constexpr i64 kMaxTokens = i64{1} << 24;     // tokens of a plan, before power-of-two bucketing
constexpr i64 kMaxTopK = i64{1} << 12;       // experts a token is routed to
constexpr i64 kMaxExperts = i64{1} << 16;    // weights', router's and global experts
constexpr i64 kMaxDimension = i64{1} << 20;  // hidden and intermediate size, in elements
constexpr i64 kMaxMultiprocessors = i64{1} << 12;
constexpr i64 kMaxKvBytesPerToken = i64{1} << 28;  // of a rank; keeps context * bytes within 61 bits
constexpr i64 kMaxTokenCounts = 256;               // entries of a core token list

// Indexer plans.
constexpr i64 kMaxIndexerRows = i64{1} << 24;
constexpr i64 kMaxIndexerPages = i64{1} << 24;   // width of a page table
constexpr i64 kMaxPageSize = i64{1} << 20;       // tokens
constexpr i64 kMaxIndexerTokens = i64{1} << 31;  // keys: the kernels count them in int32
constexpr i64 kMaxIndexerTopK = i64{1} << 20;
constexpr i64 kMaxHeads = i64{1} << 12;
constexpr i64 kMaxIndexHeads = i64{1} << 10;       // score heads of MSA
constexpr i64 kMaxSupertileTokens = i64{1} << 40;  // as requested; tile logits have a bound of their own
constexpr i64 kMaxTileLogitsBytes = i64{1} << 60;  // rows times supertile
constexpr i64 kMaxFoldBytes = i64{1} << 62;        // slab of one call
constexpr i64 kMaxFoldBudgetMib = i64{1} << 42;
constexpr i64 kMaxListedChunks = i64{1} << 18;  // an answer that lists chunks one by one has to end

}  // namespace moeplan
