// Arguments of the indexer kernels, one text for host and device. Pointers are the device's; rows are query
// rows. A slot holds top_k candidates, logits in one array and indices of tokens in another, in ascending
// order; minus infinity fills it up.
#pragma once

#include "planner/core/integer.hpp"

namespace moeplan {

// Where the keys of a call lie, and which of them its rows see.
struct IndexerSource {
  const unsigned char* quants;  // of page 0: 64 keys of 128 e4m3 numbers
  i64 quant_stride;             // bytes from a page to the next
  const unsigned char* scales;  // of page 0: 64 floats
  i64 scale_stride;
  const int* page_table;    // a row a query row; negative: no page
  i64 table_stride;         // elements from a row to the next; 0: one row for all
  i64 table_width;          // pages
  bool is_gathered;         // the pages of the chunk lie one behind the other, whatever their numbers
  const int* lengths;       // tokens a row
  i64 lengths_begin;        // the token at which lengths start to count
  const int* active_width;  // no row is longer than this; null: none is given
  i64 rows;
  i64 rows_per_request;  // rows that have one row of the page table; requests follow each other
  i64 begin;             // first token of the chunk
  i64 tokens;            // of the chunk, whole pages
};

struct IndexerScoreArguments {
  IndexerSource source;
  const unsigned char* q;  // [rows, heads, 128] e4m3; it and the weights begin at multiples of 16 bytes
  const float* weights;    // [rows, heads]
  float* logits;           // [rows, logits_stride], from the chunk's first token on
  i64 logits_stride;
  // The launch before selects from what these logits take the place of, and all else was there before it.
  bool follows_selection;
};

// A token between the ends of a row that can still be among the best.
struct alignas(8) Survivor {
  float logit;
  int index;
};

struct IndexerSplitArguments {
  IndexerSource source;  // of whole rows
  i64 head_pages;        // of the ends, and how many both have
  i64 ends_pages;
  int* ends_table;  // [rows, ends_pages]: of the first row of a request, the pages of its ends
  // Of each row:
  int* ends_lengths;     // its tokens there
  int* middle_lengths;   // where it ends before the tail; the middle begins behind the head
  int* skipped_pages;    // between the ends
  int* survivor_counts;  // [rows, kSurvivorLists, kCountWords]: none yet, the first words count
};

struct IndexerSieveArguments {
  IndexerSource source;    // from behind the heads on
  const unsigned char* q;  // as the scorer's
  const float* weights;
  const unsigned long long*
      least_ranks;       // of each row, the last that was selected from its ends, counted in them
  int* survivor_counts;  // [rows, kSurvivorLists, kCountWords]: those without room count too
  Survivor* survivors;   // [rows, kSurvivorLists, capacity]
  i64 capacity;
  unsigned* directory;  // [rows, directory_stride]: where the survivors of each step lie
  i64 directory_stride;
};

struct IndexerJoinArguments {
  IndexerSource source;  // of whole rows
  i64 parts;             // blocks of a row
  i64 top_k;
  const float* ends_values;  // what was selected from the ends: a slot a row, indices counted in them
  const int* ends_indices;
  i64 head_tokens;
  const int* skipped_pages;
  const int* middle_lengths;
  const int* survivor_counts;
  const Survivor* survivors;
  i64 capacity;
  const unsigned* directory;
  i64 directory_stride;
  i64 step_tokens;
  // [rows, list_stride]: both, in the order of their tokens.
  float* list_values;
  int* list_indices;
  i64 list_stride;
  // Of each row:
  int* list_counts;   // what is in the list; 0 where survivors had no room
  int* rest_lengths;  // there the row's length, which is selected from anew; else 0
};

struct IndexerSelectArguments {
  IndexerSource source;
  i64 top_k;
  i64 parts;            // of a slice, a block each of one cluster
  i64 slices;           // of a row
  i64 slice_tokens;     // whole pages
  const float* logits;  // of the chunk; null: there are lists alone
  i64 logits_stride;
  // Lists of candidates that come before the logits: all their indices are smaller. Row r has `lists` slots,
  // one behind the other, or list_counts[r] entries where these are given, from element r * list_stride on.
  const float* list_values;
  const int* list_indices;
  i64 lists;
  const int* list_counts;
  i64 list_stride;
  // The result: slot row * slot_row_step + first_slot + slice, or scores and indices of the row.
  float* slot_values;
  int* slot_indices;
  i64 slot_row_step;
  i64 first_slot;
  float* scores;  // null: not wanted
  int* indices;
  bool is_physical;  // indices are places in the cache, page * 64 + token % 64
  unsigned long long*
      least_ranks;   // of each row, no greater than that of the last that is selected; null: not wanted
  bool keeps_empty;  // what there is of a row of no length stays
};

struct IndexerGatherArguments {
  IndexerSource source;
  unsigned char* quants;    // [tokens, 128]
  unsigned char* scales;    // [tokens, 4]
  int* contiguous_lengths;  // first token of each row in the chunk
  int* runtime_lengths;     // the one behind its last
};

}  // namespace moeplan
