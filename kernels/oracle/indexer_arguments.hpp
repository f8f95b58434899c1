// Arguments of the indexer's reference: one text for host and device. Pointers are the device's.
#pragma once

#include "planner/core/integer.hpp"

namespace moeplan {

constexpr i64 kIndexerOracleThreads = 256;  // a block

struct IndexerReferenceArguments {
  const unsigned char* q;  // [rows, heads, 128] e4m3
  const float* weights;    // [rows, heads]
  const unsigned char* cache;
  i64 page_stride;
  const int* page_table;
  i64 table_stride;  // elements from a row to the next; 0: one row for all
  i64 table_width;   // pages
  const int* lengths;
  i64 heads;
  i64 rows;
  double* logits;      // [rows, table_width * 64]; minus infinity: the row does not see the token
  double* magnitudes;  // [rows, table_width * 64]: the sum of what the heads add, each as it is large
};

}  // namespace moeplan
