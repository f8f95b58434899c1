// Which calls an indexer's plan is validated with, and what they bring: the same in every run.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/indexer/indexer_kernels.hpp"
#include "runtime/oracle/indexer_reference.hpp"

namespace moeplan {

enum class CallKind {
  shuffled,  // pages of a request lie anywhere in the cache
  holes,     // and some of them nowhere
  far,       // and most of them behind 2^31 bytes
  ties,      // and all logits are equal
};
// Behind "pages".
inline constexpr std::string_view kCallNames[] = {"", " with holes", " behind 2^31 bytes",
                                                  " of equal logits"};

// A call to be run.
struct IndexerTestCall {
  i64 rows = 0;
  i64 rows_per_request = 1;  // of packed_contiguous all of them
  i64 pages = 0;             // of its page table
  IndexerFold fold{};
  CallKind kind{};
};
// "two-level over 8192 pages with holes by 6 rows"
std::string text_of(const IndexerTestCall& call);

// What its launches are given, without addresses.
IndexerInputs inputs_of(const IndexerTestCall& call);

// Rows that differ from each other, the first of the call. The others repeat them in turn, at other places of
// their tiles: what they select is known without a reference.
i64 distinct_rows(const IndexerTestCall& call);

// What the call brings, of its distinct rows. Their lengths are those of the first replay.
oracle::IndexerCall data_of(const IndexerTestCall& call, const IndexerPlan& plan);

// Lengths of the distinct rows, a replay each, two at least: 0, 1, both sides of a page, of top_k, of a chunk
// and of a supertile, 131,072, 524,288 and all that the page table covers, each in one of them. The last row
// of the call is as long as the page table in the first.
std::vector<std::vector<std::int32_t>> lengths_of(const IndexerTestCall& call, const IndexerPlan& plan);

// Every fold that there is room for, requests of several rows, few rows, a narrow table, and every kind.
std::vector<IndexerTestCall> calls_to_validate(const IndexerPlan& plan);

// Calls of which some touch as much of each tensor as any call can.
std::vector<IndexerTestCall> calls_to_shrink(const IndexerPlan& plan);

// The request with every size as small as it can be while its route stays what it is: pages for several
// chunks of the smallest supertile, and rows that fill its logits.
IndexerRequest small_request(const IndexerRequest& request, IndexerRoute route);

}  // namespace moeplan
