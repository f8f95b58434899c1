// Ids of the router, of ID_BYTES bytes, and the experts that they mean.
#pragma once

#include "planner/core/integer.hpp"

namespace moeplan {

#if ID_BYTES == 8
using Id = long long;
#else
using Id = int;
#endif

// The expert among `experts`, or -1. Ids below `ids` are valid; `map`, where there is one, says what they
// mean.
inline i64 expert_of(i64 id, const int* map, i64 ids, i64 experts) {
  if (id < 0 || id >= ids) return -1;
  const i64 expert = map ? map[id] : id;
  return expert >= 0 && expert < experts ? expert : -1;
}

}  // namespace moeplan
