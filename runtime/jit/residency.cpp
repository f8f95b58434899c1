#include "runtime/jit/residency.hpp"

#include "planner/core/text.hpp"

namespace moeplan {

std::string_view residency_limit(const Architecture& architecture, i64 registers, i64 threads,
                                 i64 shared_bytes) {
  const i64 blocks = resident_blocks(architecture, registers, threads, shared_bytes);
  // A limit alone is enough to explain the number when it gives that number without the others.
  if (resident_blocks(architecture, 0, threads, shared_bytes) == blocks &&
      resident_blocks(architecture, 0, threads, 0) > blocks)
    return "shared memory";
  if (resident_blocks(architecture, registers, threads, 0) == blocks &&
      resident_blocks(architecture, 0, threads, 0) > blocks)
    return "registers";
  return blocks == architecture.blocks_per_sm ? "blocks" : "threads";
}

Status check_resident(std::string_view kernel, i64 grid, const Residency& residency) {
  if (grid <= residency.blocks()) return Ok{};
  return Error{
      ErrorCode::grid_not_resident, "",
      concat(kernel, " waits for all of its ", grid, " blocks, and only ", residency.blocks(),
             " can be resident: ", residency.blocks_per_sm,
             residency.blocks_per_sm == 1 ? " block a multiprocessor on " : " blocks a multiprocessor on ",
             residency.sm_count, " multiprocessors, limited by ", residency.limit),
      concat("launch at most ", residency.blocks(), " blocks, or plan for a GPU with more multiprocessors")};
}

}  // namespace moeplan
