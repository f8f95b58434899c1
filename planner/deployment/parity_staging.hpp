// Staging of the EXL3 parity path, tensor by tensor: a runtime owns it even when no step can reach it.
// Source: docs/memory.md section 3.
#pragma once

#include "planner/deployment/buffers.hpp"

namespace moeplan {

struct ParityShape {
  i64 hidden;        // H
  i64 intermediate;  // I, of this rank
  i64 experts;       // E
  i64 top_k;
  i64 rows;   // staged rows
  i64 chunk;  // rows a call
  i64 multiprocessors;
};

// Experts the parity kernel runs at once: one every eight multiprocessors.
constexpr i64 parity_concurrency(i64 multiprocessors) { return multiprocessors / 8; }

std::vector<Buffer> parity_staging(const ParityShape& shape);

}  // namespace moeplan
