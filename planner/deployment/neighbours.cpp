#include "planner/deployment/neighbours.hpp"

#include "planner/core/limits.hpp"
#include "planner/core/text.hpp"
#include "planner/moe/geometry.hpp"

namespace moeplan {
namespace {

Neighbour skipped(std::string change, std::string knob, std::string reason) {
  return {std::move(change), std::move(knob), std::nullopt, std::move(reason)};
}

// Half and twice a size, where both are sizes.
template <class Set>
void add_halves(std::vector<Neighbour>& list, const PlanRequest& request, std::string_view what,
                const std::string& knob, i64 value, i64 most, Set set) {
  for (i64 other : {value / 2, value * 2}) {
    const std::string change = concat(what, " ", grouped(other));
    if (other < 1 || other > most) {
      list.push_back(skipped(change, knob, other < 1 ? "there is no half of 1" : "beyond what is planned"));
      continue;
    }
    PlanRequest changed = request;
    set(changed, other);
    list.push_back({change, knob, std::move(changed), ""});
  }
}

void add_blocks(std::vector<Neighbour>& list, const DeploymentRequest& origin) {
  const PlanRequest& request = origin.request;
  const std::string knob = origin.config_pointer("/capacity/block_size_m");
  if (request.kind == RequestKind::moe_ep) {
    list.push_back(skipped("block", knob, "an expert-parallel plan has no pin"));
    return;
  }
  if (request.moe.weights.quant_mode != QuantMode::w4a16) {
    list.push_back(
        skipped("block", knob, "micro and dynamic kernels take tiles by their rows, whatever is pinned"));
    return;
  }
  if (request.moe.contract->lean_executor) {
    list.push_back(skipped("block", knob, "the lean executor has blocks of its own, whatever is pinned"));
    return;
  }
  for (i64 block : kBlockSizes) {
    PlanRequest changed = request;
    changed.moe.capacity.block_size_m = block;
    list.push_back({concat("block ", block), knob, std::move(changed), ""});
  }
  PlanRequest unpinned = request;
  unpinned.moe.capacity.block_size_m.reset();
  // The engine always pins: it has no variable that takes a pin away.
  list.push_back({"no pinned block", origin.stated_index >= 0 ? knob : "", std::move(unpinned), ""});
}

// Ranks share the intermediate size: half the ranks, twice the columns.
void add_ranks(std::vector<Neighbour>& list, const Deployment& deployment, const DeploymentRequest& origin) {
  const bool stated = origin.stated_index >= 0;
  const std::string knob = stated ? origin.config_pointer("/weights/intermediate_size") : "/parallel/tp";
  const i64 n = origin.request.moe.weights.intermediate_size;
  const i64 tp = stated ? 0 : deployment.parallel->tp;
  const auto add = [&](std::string change, std::optional<i64> columns, std::string reason) {
    if (!columns) {
      list.push_back(skipped(std::move(change), knob, std::move(reason)));
      return;
    }
    PlanRequest changed = origin.request;
    changed.moe.weights.intermediate_size = *columns;
    list.push_back({std::move(change), knob, std::move(changed), ""});
  };
  const auto optional_size = [](bool fits, i64 size) { return fits ? std::optional(size) : std::nullopt; };
  add(stated ? concat("half the ranks: n ", grouped(2 * n)) : concat("tp ", grouped(tp / 2)),
      optional_size((stated || tp % 2 == 0) && 2 * n <= kMaxDimension, 2 * n),
      tp % 2 != 0 ? concat("tp ", tp, " has no half") : "beyond what is planned");
  add(stated ? concat("twice the ranks: n ", grouped(n / 2)) : concat("tp ", grouped(tp * 2)),
      optional_size(n % 2 == 0, n / 2), concat("2 does not divide this rank's intermediate size ", n));
}

// The same weights as another build names them; none where it has no such thing.
std::optional<MoeWeights> weights_under(const MoeWeights& weights, const Contract& from, const Contract& to) {
  MoeWeights other = weights;
  if (weights.source_format != from.trellis_source) return other;
  other.source_format = to.trellis_source;
  if (to.trellis_settings) {
    if (!other.trellis_codebook) other.trellis_codebook = TrellisCodebook::mcg;
    return other;
  }
  if (weights.trellis_codebook.value_or(TrellisCodebook::mcg) != TrellisCodebook::mcg ||
      weights.trellis_rate_structure || weights.trellis_pair_kinds || weights.coupled_hadamard)
    return std::nullopt;
  other.trellis_codebook.reset();
  return other;
}

void add_contracts(std::vector<Neighbour>& list, const DeploymentRequest& origin) {
  const PlanRequest& request = origin.request;
  const Contract& now = is_moe(request.kind) ? *request.moe.contract : *request.indexer.contract;
  for (const Contract& contract : contracts()) {
    if (&contract == &now) continue;
    const std::string change = concat("contract ", contract.id);
    PlanRequest changed = request;
    changed.moe.contract = changed.indexer.contract = &contract;
    if (is_moe(request.kind)) {
      const auto weights = weights_under(request.moe.weights, now, contract);
      if (!weights) {
        list.push_back(skipped(change, "/contract", "it has no such Trellis setting"));
        continue;
      }
      changed.moe.weights = *weights;
    }
    list.push_back({change, "/contract", std::move(changed), ""});
  }
}

// Sizes of an indexer request that its kind reads.
void add_indexer_sizes(std::vector<Neighbour>& list, const DeploymentRequest& origin) {
  struct Size {
    std::string_view what;
    std::string_view pointer;
    std::optional<i64> IndexerCaps::*member;
    i64 most;
  };
  constexpr Size kSizes[] = {
      {"rows", "/caps/max_q_rows", &IndexerCaps::max_q_rows, kMaxIndexerRows},
      {"rows", "/caps/max_rows", &IndexerCaps::max_rows, kMaxIndexerRows},
      {"pages", "/caps/max_page_table_width", &IndexerCaps::max_page_table_width, kMaxIndexerPages},
      {"keys", "/caps/max_k_rows", &IndexerCaps::max_k_rows, kMaxIndexerTokens},
      {"width", "/caps/max_width", &IndexerCaps::max_width, kMaxIndexerTokens},
  };
  for (const Size& size : kSizes) {
    const auto& value = origin.request.indexer.caps.*size.member;
    if (!value || *value < 1) continue;
    // Prefill rows are the scheduler's tokens, decode rows its sequences.
    const bool prefill_rows = origin.stated_index < 0 && size.member == &IndexerCaps::max_q_rows &&
                              origin.request.indexer.caps.mode == IndexerMode::prefill;
    const std::string knob =
        prefill_rows ? "/deployment/max_num_batched_tokens" : origin.config_pointer(size.pointer);
    add_halves(list, origin.request, size.what, knob, *value, size.most,
               [&](PlanRequest& request, i64 other) { request.indexer.caps.*size.member = other; });
  }
}

void add_supertiles(std::vector<Neighbour>& list, const DeploymentRequest& origin) {
  if (origin.request.kind != RequestKind::indexer_paged) return;
  const std::string knob =
      origin.stated_index >= 0
          ? origin.config_pointer("/caps/paged_tile_logits_k_rows")
          : concat("/deployment/env/", origin.request.indexer.contract->environment_prefix,
                   kIndexerVariableNames[static_cast<int>(IndexerVariable::supertile_k)]);
  for (i64 tokens : {8'192, 16'384, 32'768, 65'536}) {
    PlanRequest changed = origin.request;
    changed.indexer.caps.paged_tile_logits_k_rows = tokens;
    list.push_back({concat("supertile ", grouped(tokens)), knob, std::move(changed), ""});
  }
}

// Tokens of a plan: a decode plan's, a prefill plan's up to what is scheduled, and beyond that the
// scheduler's.
void add_capacities(std::vector<Neighbour>& list, const Deployment& deployment,
                    const DeploymentRequest& origin) {
  const std::size_t first = list.size();
  add_halves(list, origin.request, "capacity", origin.config_pointer("/capacity/max_tokens"),
             origin.request.moe.capacity.tokens(), kMaxTokens,
             [](PlanRequest& request, i64 tokens) { request.moe.capacity.max_tokens = tokens; });
  if (origin.stated_index >= 0) return;
  for (std::size_t i = first; i < list.size(); ++i) {
    if (list[i].request &&
        list[i].request->moe.capacity.max_tokens > deployment.engine->max_num_batched_tokens)
      list[i].knob = "/deployment/max_num_batched_tokens";
  }
}

}  // namespace

std::vector<Neighbour> neighbours_of(const Deployment& deployment, const DeploymentRequest& origin) {
  std::vector<Neighbour> list;
  if (is_moe(origin.request.kind)) {
    add_blocks(list, origin);
    add_capacities(list, deployment, origin);
    add_ranks(list, deployment, origin);
  } else {
    add_indexer_sizes(list, origin);
    add_supertiles(list, origin);
  }
  add_contracts(list, origin);
  return list;
}

}  // namespace moeplan
