// The tile a W4A16 GEMM of a fused launch runs with: which fit, what each occupies, and which one a launch
// selects from its own size. Source: docs/launches.md sections 2 and 3.
#pragma once

#include <compare>
#include <optional>

#include "planner/core/integer.hpp"
#include "planner/core/result.hpp"

namespace moeplan {

// K by N elements of one step of a thread block.
struct Tile {
  i64 k;
  i64 n;
  i64 threads;
  auto operator<=>(const Tile&) const = default;
};

// Threads of a tile that a plan pins by its sizes alone.
constexpr i64 threads_of_tile(i64 k, i64 n) { return k * n >= 128 * 128 ? 256 : 128; }

// One GEMM of a launch. Rows are m times top_k: the first GEMM reads a token once a route, the second has a
// row a route already (then top_k is 1).
struct GemmShape {
  i64 m;
  i64 n;
  i64 k;
  i64 top_k;
};

// What the selection knows of the weights and the device.
struct TileContext {
  i64 block;        // route block: one of kBlockSizes
  i64 weight_bits;  // a weight
  i64 scale_group;  // K elements that share a scale
  i64 multiprocessors;
  i64 shared_memory;  // bytes a block may opt in to
  bool operator==(const TileContext&) const = default;
};

// Blocks of 16 rows that a route block covers.
constexpr i64 m_blocks_of(i64 block) { return ceil_div(block, 16); }

// Registers a thread, read off compiled kernels; none for a tile that was never compiled.
std::optional<i64> registers_of(const Tile& tile, i64 block);

// Bytes of shared memory the selection reckons with. The kernel's own count is kernel_shared_words.
i64 selection_shared_bytes(const Tile& tile, const TileContext& context);

// 4-byte words of shared memory of the compiled kernel; it enters its key.
i64 kernel_shared_words(const Tile& tile, const TileContext& context);

bool tile_fits(const GemmShape& gemm, const Tile& tile, const TileContext& context);

// Thread blocks a multiprocessor that the launch asks for: from registers, shared memory, and the work there
// is. Falls with few rows. Error: no register count is known.
Result<i64> blocks_per_multiprocessor(const GemmShape& gemm, const Tile& tile, const TileContext& context);

struct TilePair {
  Tile fc1;
  Tile fc2;
  bool operator==(const TilePair&) const = default;
};

// The tiles of both GEMMs, with equal threads. Error: none fits.
Result<TilePair> select_tiles(const GemmShape& fc1, const GemmShape& fc2, const TileContext& context);

// From this many tokens on, the work clamps nothing: tiles and blocks a multiprocessor stay as they are.
constexpr i64 saturating_tokens(i64 top_k, i64 multiprocessors) { return ceil_div(multiprocessors, top_k); }

}  // namespace moeplan
