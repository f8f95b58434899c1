#include "planner/deployment/parity_staging.hpp"

namespace moeplan {

std::vector<Buffer> parity_staging(const ParityShape& s) {
  const i64 lanes = parity_concurrency(s.multiprocessors);
  return {
      buffer("xh", "float16", 2, shape(s.rows, s.hidden), "rows*H"),
      buffer("out32", "float32", 4, shape(s.rows, s.hidden), "rows*H"),
      buffer("tg", "float16", 2, shape(lanes, s.chunk, s.hidden), "conc*chunk*H"),
      buffer("tu", "float16", 2, shape(lanes, s.chunk, s.hidden), "conc*chunk*H"),
      buffer("ig", "float16", 2, shape(lanes, s.chunk, s.intermediate), "conc*chunk*I"),
      buffer("iu", "float16", 2, shape(lanes, s.chunk, s.intermediate), "conc*chunk*I"),
      buffer("expert_count", "int64", 8, shape(s.experts + 1), "E+1"),
      buffer("expert_offsets", "int64", 8, shape(s.experts + 1), "E+1"),
      buffer("token_sorted", "int64", 8, shape(s.rows * s.top_k), "rows*topk"),
      buffer("weight_sorted", "float16", 2, shape(s.rows * s.top_k), "rows*topk"),
      buffer("flat_token", "int64", 8, shape(s.chunk * s.top_k), "chunk*topk"),
      buffer("ones", "int64", 8, shape(s.chunk * s.top_k), "chunk*topk"),
  };
}

}  // namespace moeplan
