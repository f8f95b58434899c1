// Which kernels an indexer call launches in the arena of its plan, and each launch's grid and arguments. Pure
// functions: addresses go in and come out as numbers, nothing is asked of a device.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/indexer/arguments.hpp"
#include "planner/indexer/kernel_geometry.hpp"
#include "planner/indexer/layout.hpp"
#include "planner/indexer/request.hpp"
#include "runtime/moe/kernel_launch.hpp"

namespace moeplan {

// How the best of a row's parts become the best of the row.
enum class IndexerFold {
  single,     // there is one part: all logits of a row are there at once, those of some rows after others
  carry,      // the best so far are selected again with every chunk of logits, in candidate_*
  two_level,  // the best of every slice go to slots, out of which the best are selected
  sieve,  // the best of a row's ends say how good others have to be to be kept; rows without room for those
          // that are kept are selected from anew
};

inline constexpr std::string_view kIndexerFoldNames[] = {"single", "carry", "two-level", "sieve"};
constexpr std::string_view name_of(IndexerFold fold) { return kIndexerFoldNames[static_cast<int>(fold)]; }

// What all calls of one plan have in common.
struct IndexerPlan {
  IndexerRoute route{};
  i64 heads = 0;
  i64 rows = 0;   // R
  i64 pages = 0;  // W
  i64 top_k = 0;
  i64 supertile = 0;
  i64 logits = 0;           // elements of tile_logits
  i64 fused_slots = 0;      // of fused_pack_*
  i64 fold_slab_bytes = 0;  // 0: none is reserved
  bool has_candidates = false;
  i64 multiprocessors = 0;  // of the device that runs it
};

// Why our kernels do not run the plan of an `indexer_paged` request; "": they do.
std::string missing_indexer_kernels(const IndexerRequest& request, const IndexerLayout& layout);

// Of a request and its layout whose kernels are not missing.
IndexerPlan indexer_plan(const IndexerRequest& request, const IndexerLayout& layout, i64 multiprocessors);

// Every kernel that a call of the plan can need.
std::vector<KernelVariant> indexer_variants(const IndexerPlan& plan);

// The tensors of the plan, wherever its arena lies; null where the plan has none.
struct IndexerTensors {
  unsigned char* gather_k_quant;
  unsigned char* gather_k_scale;
  int* contiguous_lengths;
  int* runtime_lengths;
  float* tile_logits;
  float* topk_values;
  int* topk_indices;
  float* candidate_values;
  int* candidate_indices;
  const int* active_width;
  float* fused_pack_values;
  int* fused_pack_indices;
  std::byte* fold_slab;
};
// `address`: where the tensor of a name starts; null: it is not there.
IndexerTensors indexer_tensors(const std::function<std::byte*(std::string_view)>& address);

// What a call brings. Rows of one request follow each other and have one row of the page table each, which
// are equal; calls of packed_contiguous have one row for all.
struct IndexerInputs {
  const unsigned char* q = nullptr;  // [rows, heads, 128] e4m3; it and the weights at multiples of 16 bytes
  const float* weights = nullptr;    // [rows, heads]
  const unsigned char* cache = nullptr;  // pages
  i64 page_stride = kPageBytes;          // bytes, a multiple of 16
  const int* page_table = nullptr;
  i64 table_width = 0;  // pages of a row of the table
  const int* lengths = nullptr;
  i64 rows = 0;
  i64 rows_per_request = 1;
  bool is_physical = false;         // indices are places in the cache
  float* scores = nullptr;          // null: topk_values
  int* indices = nullptr;           // null: topk_indices
  std::optional<IndexerFold> fold;  // none: the one for the call's size
};

// The folds that there is room for; the first is the one for the call's size.
std::vector<IndexerFold> indexer_folds(const IndexerPlan& plan, const IndexerInputs& inputs);

// Tokens of a chunk, where a fold has chunks.
i64 indexer_chunk_tokens(const IndexerPlan& plan, const IndexerInputs& inputs);

// Tokens of a row's ends, where the call has room to be sieved; else 0.
i64 indexer_ends_tokens(const IndexerPlan& plan, const IndexerInputs& inputs);

// Rows that share a tile of the scorer.
i64 indexer_tile_rows(const IndexerPlan& plan, const IndexerInputs& inputs);

// Bytes from the start of a tensor that a call's kernels take.
struct IndexerNeed {
  std::string_view tensor;
  i64 bytes;
};
// By the kernels' own reckoning: what the plan has of a tensor is not asked, only where slots go. Tensors
// that are not among them are not touched.
std::vector<IndexerNeed> indexer_need(const IndexerPlan& plan, const IndexerInputs& inputs);

using IndexerLaunch = std::variant<KernelLaunch<IndexerGatherArguments>, KernelLaunch<IndexerScoreArguments>,
                                   KernelLaunch<IndexerSelectArguments>, KernelLaunch<IndexerSplitArguments>,
                                   KernelLaunch<IndexerSieveArguments>, KernelLaunch<IndexerJoinArguments>>;

// The launches of a call, in order. A fold that is asked for has to be among indexer_folds.
std::vector<IndexerLaunch> indexer_launches(const IndexerPlan& plan, const IndexerTensors& tensors,
                                            const IndexerInputs& inputs);

}  // namespace moeplan
