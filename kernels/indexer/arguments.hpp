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
  const unsigned char* q;  // [rows, heads, 128] e4m3
  const float* weights;    // [rows, heads]
  float* logits;           // [rows, logits_stride], from the chunk's first token on
  i64 logits_stride;
  // The launch before selects from what these logits take the place of, and all else was there before it.
  bool follows_selection;
};

struct IndexerSelectArguments {
  IndexerSource source;
  i64 top_k;
  i64 parts;            // of a slice, a block each of one cluster
  i64 slices;           // of a row
  i64 slice_tokens;     // whole pages
  const float* logits;  // of the chunk; null: there are lists alone
  i64 logits_stride;
  // Slots of candidates that come before the logits: all their indices are smaller. Row r has `lists` of
  // them, one behind the other from slot r * list_row_step on.
  const float* list_values;
  const int* list_indices;
  i64 lists;
  i64 list_row_step;
  // The result: slot row * slot_row_step + first_slot + slice, or scores and indices of the row.
  float* slot_values;
  int* slot_indices;
  i64 slot_row_step;
  i64 first_slot;
  float* scores;  // null: not wanted
  int* indices;
  bool is_physical;  // indices are places in the cache, page * 64 + token % 64
};

struct IndexerGatherArguments {
  IndexerSource source;
  unsigned char* quants;    // [tokens, 128]
  unsigned char* scales;    // [tokens, 4]
  int* contiguous_lengths;  // first token of each row in the chunk
  int* runtime_lengths;     // the one behind its last
};

}  // namespace moeplan
