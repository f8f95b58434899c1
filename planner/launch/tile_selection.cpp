#include "planner/launch/tile_selection.hpp"

#include <span>

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr i64 kStages = 4;
constexpr i64 kRegisterBytes = 255 * 1024;  // of a multiprocessor, one KiB kept back
constexpr i64 kReservedShared = 512;        // of a block's opt-in, kept back by the fit test
constexpr i64 kSharedPerResident = 1536;    // a resident block costs that much more than it asks for

// In the order they are tried; a tie keeps the first.
constexpr Tile kOneBlockTiles[] = {{128, 128, 256}, {64, 128, 128}, {128, 64, 128}};  // 8 and 16 rows
constexpr Tile kManyBlockTiles[] = {{64, 256, 256}, {64, 128, 128}, {128, 64, 128}};

std::span<const Tile> candidates(i64 block) {
  if (m_blocks_of(block) == 1) return kOneBlockTiles;
  return kManyBlockTiles;
}

struct RegisterRow {
  i64 threads, m_blocks, n_16, k_16;
  bool block_8;
  i64 registers;
};
// Measured on sm_120 and sm_121.
constexpr RegisterRow kRegisters[] = {
    {256, 1, 8, 8, true, 118},   {256, 1, 16, 4, true, 118}, {256, 1, 16, 8, true, 118},
    {256, 1, 32, 2, true, 118},  {128, 1, 4, 8, true, 118},  {128, 1, 8, 4, true, 120},
    {256, 1, 8, 8, false, 158},  {128, 1, 4, 8, false, 154}, {128, 1, 8, 4, false, 143},
    {256, 2, 16, 4, false, 212}, {128, 2, 4, 8, false, 215}, {128, 2, 8, 4, false, 214},
    {256, 3, 16, 4, false, 249}, {128, 3, 4, 8, false, 249}, {128, 3, 8, 4, false, 250},
    {256, 4, 16, 4, false, 255}, {128, 4, 4, 8, false, 255}, {128, 4, 8, 4, false, 255},
};

// The reduction buffer and the bias share the room of the weight stages where those are larger.
i64 shared_region(i64 weights, i64 reduction, i64 bias) {
  return max_of(max_of(weights, reduction), min_of(weights, reduction) + bias);
}

Result<std::optional<Tile>> best_tile(const GemmShape& gemm, const TileContext& context,
                                      std::optional<i64> threads) {
  std::optional<Tile> best;
  i64 most = 0;
  for (const Tile& tile : candidates(context.block)) {
    if ((threads && tile.threads != *threads) || !tile_fits(gemm, tile, context)) continue;
    const auto resident = blocks_per_multiprocessor(gemm, tile, context);
    if (!resident) return resident.error();
    if (*resident <= most) continue;
    most = *resident;
    best = tile;
  }
  return best;
}

}  // namespace

std::optional<i64> registers_of(const Tile& tile, i64 block) {
  for (const RegisterRow& row : kRegisters) {
    if (row.threads == tile.threads && row.m_blocks == m_blocks_of(block) && row.n_16 == tile.n / 16 &&
        row.k_16 == tile.k / 16 && row.block_8 == (block == 8))
      return row.registers;
  }
  return std::nullopt;
}

i64 selection_shared_bytes(const Tile& tile, const TileContext& context) {
  const i64 rows = 16 * m_blocks_of(context.block);
  const i64 bits = max_of(4, context.weight_bits);
  const i64 metadata = 16 * rows;
  const i64 activations = kStages * rows * tile.k * 2;
  const i64 weights = kStages * (tile.k * tile.n * bits / 8);
  const i64 reduction = rows * (tile.n + 8) * 2;
  const i64 scales = kStages * ceil_div(tile.k, context.scale_group) * tile.n * 2;
  return shared_region(weights, reduction, 2 * tile.n) + activations + scales + metadata;
}

i64 kernel_shared_words(const Tile& tile, const TileContext& context) {
  // In units of 16 bytes, as the kernel counts.
  const i64 n_16 = tile.n / 16, k_16 = tile.k / 16, block = context.block, m_blocks = m_blocks_of(block);
  const i64 metadata = block / 4 + block / 4 + block / 2;
  const i64 unit_bytes = 4 * context.weight_bits;
  const i64 weights = ceil_div(kStages * (8 * n_16 * k_16) * unit_bytes, 16);
  const i64 reduction = (2 * n_16 + 1) * 16 * m_blocks;
  const i64 scale_steps = context.scale_group == 32 ? k_16 / 2 : k_16;
  const i64 scales = kStages * scale_steps * n_16;
  const i64 activations = kStages * 2 * k_16 * 16 * m_blocks;
  return 4 * (metadata + shared_region(weights, reduction, 2 * n_16) + scales + activations);
}

bool tile_fits(const GemmShape& gemm, const Tile& tile, const TileContext& context) {
  return gemm.n % tile.n == 0 && gemm.k % tile.k == 0 && gemm.k % context.scale_group == 0 &&
         tile.k % context.scale_group == 0 && tile.n >= 64 && tile.k >= 64 && tile.threads >= 128 &&
         selection_shared_bytes(tile, context) <= context.shared_memory - kReservedShared;
}

Result<i64> blocks_per_multiprocessor(const GemmShape& gemm, const Tile& tile, const TileContext& context) {
  const auto registers = registers_of(tile, context.block);
  if (!registers)
    return Error{ErrorCode::launch_tiles, "",
                 concat("the kernels have no register count for tile ", tile.k, "x", tile.n, " at block ",
                        context.block, ": planning its launch fails"),
                 "pin block 8, 32, 48 or 64"};
  i64 limit = 1;
  // Block 8 stays at one: a larger grid only lengthens its grid barriers.
  if (context.block != 8) {
    limit = min_of(kRegisterBytes / (*registers * tile.threads * 4),
                   context.shared_memory / (selection_shared_bytes(tile, context) + kSharedPerResident));
    limit = max_of(1, min_of(limit, m_blocks_of(context.block) == 1 ? 4 : 2));
  }
  const i64 work = gemm.n / tile.n * gemm.m * gemm.top_k * 4;
  if (work < context.multiprocessors * limit) limit = max_of(work / context.multiprocessors, 1);
  return limit;
}

Result<TilePair> select_tiles(const GemmShape& fc1, const GemmShape& fc2, const TileContext& context) {
  const auto select = [&](const GemmShape& gemm, std::optional<i64> threads) -> Result<Tile> {
    const auto best = best_tile(gemm, context, threads);
    if (!best) return best.error();
    if (*best) return **best;
    return Error{ErrorCode::launch_tiles, "",
                 concat("no tile fits M/N/K ", gemm.m * gemm.top_k, "/", gemm.n, "/", gemm.k, " at block ",
                        context.block, " with ", grouped(context.shared_memory), " B of shared memory"),
                 "the launch is refused at run time; another block size or device has one"};
  };
  auto first = select(fc1, std::nullopt);
  if (!first) return first.error();
  auto second = select(fc2, std::nullopt);
  if (!second) return second.error();
  if (first->threads != second->threads) {
    const i64 threads = min_of(first->threads, second->threads);
    first = select(fc1, threads);
    if (!first) return first.error();
    second = select(fc2, threads);
    if (!second) return second.error();
  }
  return TilePair{*first, *second};
}

}  // namespace moeplan
