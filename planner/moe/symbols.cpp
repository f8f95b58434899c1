#include "planner/moe/symbols.hpp"

#include <algorithm>
#include <vector>

#include "planner/core/text.hpp"
#include "planner/moe/lean_geometry.hpp"
#include "planner/moe/micro_dynamic.hpp"
#include "planner/moe/token_counts.hpp"
#include "planner/moe/w4a16.hpp"

namespace moeplan {
namespace {

// t: the token count whose tensors are handed out.
void add_bound_tokens(Symbols& symbols, const MoeRequest& request, const MoeLayout& layout, bool bucketed) {
  const i64 capacity = request.capacity.tokens();
  constexpr std::string_view kMeaning = "the largest listed token count";
  if (layout.bound_tokens == capacity)
    define(symbols, "t", "max_tokens", std::string(kMeaning));
  else if (bucketed && layout.bound_tokens == pow2_ceil(capacity))
    define(symbols, "t", "P(max_tokens)", concat(kMeaning, ", a power of two"));
  else
    add_input(symbols, "t", layout.bound_tokens, concat(kMeaning, ", of core_token_counts"));
}

void add_route_experts(Symbols& symbols, const MoeRequest& request, bool trellis) {
  const Contract& contract = *request.contract;
  const i64 router = max_of(request.capacity.route_experts.value_or(0), 0);
  if (router > 0)
    add_input(symbols, "rE", router, "router width");
  else
    define(symbols, "rE", "E", "router width, of which none is stated");
  constexpr std::string_view kExpressions[] = {"rE", "E", "max(E,rE)"};  // by RouteExperts
  const RouteExperts rule = trellis ? contract.trellis_route_experts : contract.other_route_experts;
  define(symbols, "R", std::string(kExpressions[static_cast<int>(rule)]), "experts of the route geometry");
}

// Slots, blocks and split-K scratch over the plan's block sizes. `rows`: the symbol of the routed rows.
void add_block_terms(Symbols& symbols, BlockRange range, const i64 (&direct_slots)[kBlockSizeCount],
                     i64 top_k, std::string_view rows) {
  std::vector<std::string> slots, blocks, fc1, fc2;
  const bool single = range.first == range.last;
  if (single) add_input(symbols, "b", kBlockSizes[range.first], "rows of a route block");
  for (int i = range.first; i <= range.last; ++i) {
    const i64 block = kBlockSizes[i];
    // One block size keeps the names of the documentation; several are told apart by their rows.
    const std::string suffix = single ? std::string() : std::to_string(block);
    const std::string b = single ? std::string("b") : std::to_string(block);
    std::string covered = single ? std::string("slots") : concat("s", suffix);
    define(symbols, covered, concat(rows, "+min(", rows, ",R)*(", b, "-1)"),
           concat("route slots at block ", block));
    slots.push_back(covered);
    blocks.push_back(concat("cd(", covered, ",", b, ")"));
    if (direct_slots[i] > 0) {
      const std::string tokens = concat("m", suffix), direct = concat("d", suffix);
      add_input(symbols, tokens, direct_slots[i] / block / top_k,
                concat("tokens of the largest direct top-k launch at block ", block));
      define(symbols, direct, concat("max(", covered, ", ", tokens, "*topk*", b, ")"),
             concat("slots that scratch covers at block ", block));
      covered = direct;
    }
    const auto add_scratch = [&](std::vector<std::string>& list, std::string_view name,
                                 std::string_view columns) {
      std::string expression =
          concat(block == 8 ? "2*" : "", "min(", columns, "*", covered, ", sms*4*", b, "*256)");
      if (!single) {
        define(symbols, concat(name, suffix), std::move(expression),
               concat("split-K elements at block ", block));
        expression = concat(name, suffix);
      }
      list.push_back(std::move(expression));
    };
    add_scratch(fc1, "f", "c1");
    add_scratch(fc2, "g", "k");
  }
  const auto most = [](const std::vector<std::string>& terms) {
    return terms.size() == 1 ? terms[0] : concat("max(", join(terms, ", "), ")");
  };
  define(symbols, "fc1_c_tmp", most(fc1), "");
  define(symbols, "fc2_c_tmp", most(fc2), "");
  define(symbols, "packed_route_indices", most(slots), "");
  define(symbols, "block_expert_ids", most(blocks), "");
}

void add_projection(Symbols& symbols, const MoeRequest& request) {
  define(symbols, "c1", is_gated(request.weights.activation) ? "2*n" : "n",
         "columns of the first projection");
}

// Slices, route blocks and the output of the lean executor.
void add_lean_terms(Symbols& symbols, const MoeRequest& request) {
  const bool is_decode = is_lean_decode(request.capacity.tokens());
  add_input(symbols, "rows_bytes", is_decode ? kLeanDecodeRowsBytes : kLeanPrefillRowsBytes,
            concat("bytes that routes' rows of one slice may take, in a ", is_decode ? "decode" : "prefill",
                   " plan"));
  define(symbols, "slice", "min(k, max(rows_bytes/(2*N)/128, 1)*128)", "columns of one slice of FC2");
  define(symbols, "full_rotation_output", "max(tokens*k, cd(N*c1,2))", "");
  if (is_decode) return;
  add_input(symbols, "b", kLeanBlock, "rows of a route block, the executor's own");
  define(symbols, "slots", "N+min(N,R)*(b-1)", concat("route slots at block ", kLeanBlock));
  define(symbols, "packed_route_indices", "slots", "");
  define(symbols, "block_expert_ids", "cd(slots,b)", "");
}

void add_tensor_parallel(Symbols& symbols, const MoeRequest& request, const MoeLayout& layout,
                         const WeightPlan& weights) {
  const auto counts = core_token_counts(request, !weights.trellis);
  const W4a16Plan plan = prepare_w4a16(request, weights, counts);
  add_projection(symbols, request);
  define(symbols, "N", "max(t*topk,1)", "token-expert pairs");
  define(symbols, "tokens", "max(N/topk,1)", "tokens");
  add_route_experts(symbols, request, weights.trellis);
  if (request.contract->lean_executor) return add_lean_terms(symbols, request);
  const i64 tokens = max_of(layout.bound_tokens, 1);
  i64 direct[kBlockSizeCount] = {};
  direct_slots_of(plan, tokens, direct);
  add_block_terms(symbols, block_range_of(plan, tokens), direct, plan.top_k, "N");
  if (small_m_direct_applies(small_m_shape(plan, tokens)))
    define(symbols, "intermediate_cache2", "max(N*n, tokens*topk*cd(n/2,128)*128*4/2)", "");
}

void add_expert_parallel(Symbols& symbols, const MoeRequest& request) {
  const i64 global_experts = *request.capacity.global_experts;
  const i64 top_k = request.capacity.routes_per_token();
  add_projection(symbols, request);
  define(symbols, "N", "max_tokens*topk", "token-expert pairs");
  define(symbols, "Nr", "P(max_tokens)*topk", "pairs that the route geometry takes");
  add_input(symbols, "G", global_experts, "experts over all ranks");
  define(symbols, "R", "G", "experts of the route geometry");
  const BlockRange range = request.contract->unpinned_blocks == UnpinnedBlocks::all
                               ? kAllBlocks
                               : reachable_blocks(request.capacity.tokens(), top_k, global_experts);
  add_block_terms(symbols, range, {}, top_k, "Nr");
}

struct SourceRow {
  std::string_view tensor;
  FormulaSource source;
};
// Tensors of a W4A16 core whose size has a function of its own in the original.
constexpr SourceRow kCoreSources[] = {
    {"fc1_c_tmp", {"docs/contracts.md section 3", "host.py, packed_gemm_scratch_elements"}},
    {"fc2_c_tmp", {"docs/contracts.md section 3", "host.py, packed_gemm_scratch_elements"}},
    {"packed_route_indices", {"docs/contracts.md section 3", "host.py, max_packed_route_slots"}},
    {"block_expert_ids", {"docs/contracts.md section 3", "host.py, max_packed_route_slots"}},
};
// Written for this contract: there is no other original.
constexpr FormulaSource kLeanSource = {"docs/contracts.md section 13", "ours: planner/moe/lean_geometry.hpp"};
constexpr std::string_view kWorkspace = "moe/fused_moe/_impl.py, _plan_core_workspace";

}  // namespace

Symbols moe_symbols(const MoeRequest& request, const MoeLayout& layout) {
  const MoeWeights& weights = request.weights;
  const MoeCapacity& capacity = request.capacity;
  Symbols symbols;
  add_input(symbols, "max_tokens", capacity.tokens(), "tokens of the plan");
  add_input(symbols, "topk", capacity.routes_per_token(), "experts a token is routed to");
  add_input(symbols, "E", weights.experts, "experts of this rank's weights");
  add_input(symbols, "k", weights.hidden_size, "hidden size");
  add_input(symbols, "n", weights.intermediate_size, "intermediate size of this rank");
  add_input(symbols, "sms", request.multiprocessors(), "multiprocessors");
  add_input(symbols, "route_experts", max_of(capacity.route_experts.value_or(weights.experts), 0),
            "router width, of the logits");
  if (layout.implementation != Implementation::w4a16) {
    add_bound_tokens(symbols, request, layout, false);
    add_micro_dynamic_symbols(symbols, request, layout.bound_tokens);
    return symbols;
  }
  if (request.kind == MoeKind::expert_parallel) {
    add_expert_parallel(symbols, request);
    return symbols;
  }
  const auto weight_plan = plan_weights(*request.contract, weights);
  MOEPLAN_CHECK(weight_plan, "a layout of weights that cannot be planned");
  add_bound_tokens(symbols, request, layout, !weight_plan->trellis);
  add_tensor_parallel(symbols, request, layout, *weight_plan);
  return symbols;
}

FormulaSource moe_formula_source(const MoeRequest& request, const MoeLayout& layout,
                                 const TensorSpec& tensor) {
  if (tensor.region == Region::route) return {"docs/contracts.md section 6", kWorkspace};
  if (layout.implementation != Implementation::w4a16) return {"docs/contracts.md section 9", kWorkspace};
  if (request.contract->lean_executor) return kLeanSource;
  for (const SourceRow& row : kCoreSources) {
    if (row.tensor == tensor.name) return row.source;
  }
  if (request.kind == MoeKind::expert_parallel) return {"docs/contracts.md section 7", kWorkspace};
  return {"docs/contracts.md section 5", kWorkspace};
}

}  // namespace moeplan
