#include "runtime/indexer/sieve.hpp"

namespace moeplan {
namespace {

// Of a row's pages one in so many, at least, is one of its ends; more are tried in steps of one in
// kEndsSteps. Of the ends one in so many is of the head.
constexpr i64 kEndsPart = 8;
constexpr i64 kHeadPart = 8;

// Words of all rows take one in so many at most: what is left is selected with the others.
constexpr i64 kSharedPart = 8;
constexpr i64 kEndsSteps = 32;

// A sieve of such batches and ends, with no more room than has to be.
Sieve least_sieve(const Sieve& of, i64 pages, i64 step_tokens) {
  Sieve sieve = of;
  const i64 middle_pages = pages - sieve.ends_pages;
  // As many of its best as are selected lie in the head, where all logits are equal.
  sieve.head_pages = max_of(sieve.ends_pages / kHeadPart, sieve.top_k / kKernelPageSize);
  sieve.steps = middle_pages * (kKernelPageSize / step_tokens);
  sieve.expected = ceil_div(sieve.top_k * middle_pages, sieve.ends_pages);
  sieve.capacity = ceil_div(3 * sieve.expected, 2 * kSurvivorLists);
  return sieve;
}

// As much room for survivors as there is.
Sieve filled(Sieve sieve, i64 words, i64 middle_tokens) {
  const i64 of_row = (words - sieve.shared_words()) / sieve.batch_rows - sieve.words_without_survivors();
  // A survivor takes two words, and two in the list.
  const i64 room = min_of(of_row / 4, middle_tokens) / kSurvivorLists;
  sieve.capacity = max_of(sieve.capacity, room);
  return sieve;
}

}  // namespace

std::optional<Sieve> sieve_of(i64 words, i64 rows, i64 rows_per_request, i64 pages, i64 step_tokens,
                              i64 top_k) {
  const i64 requests = rows / rows_per_request, fewest = 2 * top_k / kKernelPageSize;
  for (i64 batches = 1; batches <= requests; ++batches) {
    Sieve sieve{.rows = rows, .batch_rows = ceil_div(requests, batches) * rows_per_request, .top_k = top_k};
    for (i64 ends = max_of(ceil_div(pages, kEndsPart), fewest); ends < pages;
         ends += ceil_div(pages, kEndsSteps)) {
      sieve.ends_pages = ends;
      const Sieve least = least_sieve(sieve, pages, step_tokens);
      if (least.batch_words() + least.shared_words() <= words && kSharedPart * least.shared_words() <= words)
        return filled(least, words, (pages - ends) * kKernelPageSize);
    }
  }
  return std::nullopt;
}

SieveTensors sieve_tensors(const Sieve& sieve, float* tile_logits, i64 words_before_shared) {
  SieveTensors tensors{};
  tensors.directory = reinterpret_cast<unsigned*>(tile_logits);
  tensors.survivors =
      reinterpret_cast<Survivor*>(tensors.directory + sieve.batch_rows * sieve.directory_stride());
  tensors.list_values =
      reinterpret_cast<float*>(tensors.survivors + sieve.batch_rows * kSurvivorLists * sieve.capacity);
  tensors.list_indices = reinterpret_cast<int*>(tensors.list_values + sieve.batch_rows * sieve.list_stride());
  tensors.least_ranks = reinterpret_cast<unsigned long long*>(tile_logits + words_before_shared);
  int* words = reinterpret_cast<int*>(tensors.least_ranks + sieve.rows);
  for (int** each : {&tensors.ends_lengths, &tensors.middle_lengths, &tensors.skipped_pages,
                     &tensors.list_counts, &tensors.rest_lengths}) {
    *each = words;
    words += sieve.rows;
  }
  tensors.survivor_counts = words;
  tensors.ends_table = words + sieve.rows * kSurvivorLists * kCountWords;
  return tensors;
}

}  // namespace moeplan
