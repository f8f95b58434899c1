// How a call is sieved, and where in tile_logits. A few pages of a row, a head and a tail, are its ends, from
// which is selected first; of the others, its middle, only tokens are kept that come before the last of
// these.
#pragma once

#include <optional>

#include "kernels/indexer/arguments.hpp"
#include "planner/indexer/kernel_geometry.hpp"

namespace moeplan {

// Words of 4 bytes are what all of it is counted in. A batch of rows has the logits of its ends first, and in
// their place the directory of its survivors, the survivors and the list of all candidates. Behind that lie
// the words of all rows, and tables of their ends' pages.
struct Sieve {
  i64 rows;        // of the call
  i64 batch_rows;  // whole requests
  i64 top_k;
  i64 head_pages;
  i64 ends_pages;  // head and tail
  i64 steps;       // of a middle
  i64 expected;    // survivors of a row
  i64 capacity;    // of each list of a row's survivors

  i64 directory_stride() const { return align_up(steps, 4); }
  i64 list_stride() const { return align_up(kSurvivorLists * capacity + top_k, 4); }

  // Of a row of a batch.
  i64 words_without_survivors() const { return directory_stride() + 2 * (top_k + 4); }
  i64 row_words() const { return directory_stride() + 2 * kSurvivorLists * capacity + 2 * list_stride(); }
  i64 batch_words() const { return batch_rows * max_of(ends_pages * kKernelPageSize, row_words()); }

  // Of all rows: a rank, five ints, and the counts of their lists; then the tables.
  static constexpr i64 kRowWords = 2 + 5 + kSurvivorLists * kCountWords;
  i64 shared_words() const { return rows * (kRowWords + ends_pages); }
};

// Of calls whose middles have room in so many words, with half as many survivors again as are to be expected
// where logits do not depend on the place; what room is left takes more. In as few batches as possible.
// `pages`: of a row; `step_tokens`: of a scorer's step. None where there is no room.
std::optional<Sieve> sieve_of(i64 words, i64 rows, i64 rows_per_request, i64 pages, i64 step_tokens,
                              i64 top_k);

struct SieveTensors {
  // Of a batch.
  unsigned* directory;  // [batch_rows, directory_stride]
  Survivor* survivors;  // [batch_rows, kSurvivorLists, capacity]
  float* list_values;   // [batch_rows, list_stride]
  int* list_indices;
  // Of all rows; [rows] where nothing else is said.
  unsigned long long* least_ranks;
  int* ends_lengths;
  int* middle_lengths;
  int* skipped_pages;
  int* list_counts;
  int* rest_lengths;
  int* survivor_counts;  // [rows, kSurvivorLists, kCountWords]
  int* ends_table;       // [rows, ends_pages]
};
// Where they lie: those of a batch from tile_logits on, those of all rows behind the first so many words, an
// even number, since ranks take 8 bytes.
SieveTensors sieve_tensors(const Sieve& sieve, float* tile_logits, i64 words_before_shared);

}  // namespace moeplan
