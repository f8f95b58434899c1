// Rules about single plans: their pins, their shapes, and whether the reserve holds.
#include <algorithm>

#include "planner/core/text.hpp"
#include "planner/deployment/exl3_reach.hpp"
#include "planner/deployment/launch_findings.hpp"
#include "planner/moe/plan_moe.hpp"
#include "planner/moe/reach.hpp"
#include "planner/moe/soundness_advice.hpp"
#include "planner/policy/rule_checks.hpp"

namespace moeplan {

void check_padding(const RuleCase& c) {
  for (const DeployedPlan& plan : c.subject.plans) {
    const MoeWeights& weights = plan.request().weights;
    const i64 extent = align_up(weights.intermediate_size, 128);
    if (weights.quant_mode != QuantMode::w4a8_mx || extent == weights.intermediate_size) continue;
    c.out.push_back({plan.origin.config_pointer("/weights/intermediate_size"),
                     concat(plan_name(plan.id()), ": intermediate_size ", weights.intermediate_size,
                            " is padded to ", extent, "; its sizes follow the padded extent"),
                     ""});
  }
}

void check_route_experts(const RuleCase& c) {
  for (const DeployedPlan& plan : c.subject.plans) {
    const i64 router = plan.request().capacity.route_experts.value_or(0);
    const i64 experts = plan.request().weights.experts;
    if (router <= 0 || router == experts || plan.layout.implementation != Implementation::w4a16 ||
        plan.layout.weight_layout == WeightLayout::trellis)
      continue;
    c.out.push_back({plan.origin.config_pointer("/capacity/route_experts"),
                     concat(plan_name(plan.id()), ": route_experts ", router, " is not the weights' ",
                            experts, " experts, which launches of this layout count"),
                     ""});
  }
}
namespace {

bool is_unpinned(const DeployedPlan& plan) {
  return plan.layout.implementation == Implementation::w4a16 && !plan.request().capacity.block_size_m &&
         plan.request().kind == MoeKind::tensor_parallel;
}

i64 unselected_bytes(const DeployedPlan& plan) {
  const MoeAudit audits[] = {audit_moe(plan.request(), plan.layout, ExpertMap::absent, AuditSearch::peaks)};
  i64 bytes = 0;
  for (const UnusedBytes& unused : unused_bytes(plan.request(), plan.layout, audits, false))
    bytes += unused.kind == "unselected_blocks" ? unused.bytes : 0;
  return bytes;
}

}  // namespace

void check_unpinned(const RuleCase& c) {
  for (const DeployedPlan& plan : c.subject.plans) {
    if (!is_unpinned(plan) || plan.layout.weight_layout == WeightLayout::trellis) continue;
    const i64 wasted = unselected_bytes(plan);
    const i64 tokens = plan.request().capacity.tokens();
    const BlockRange range =
        reachable_blocks(tokens, plan.request().capacity.routes_per_token(), plan.layout.route_experts);
    c.out.push_back(
        {plan.origin.config_pointer("/capacity/block_size_m"),
         concat(plan_name(plan.id()), ": the block size is not pinned, which reserves ", grouped(wasted),
                " B (", mib(wasted), ") for launches that cannot happen", worth(c.subject.now, wasted)),
         concat("pin block_size_m; up to ", tokens, " tokens select ", kBlockSizes[range.first],
                range.first == range.last ? "" : concat(" to ", kBlockSizes[range.last])),
         wasted});
  }
}

void check_pin_reach(const RuleCase& c) {
  for (const DeployedPlan& plan : c.subject.plans) {
    const auto pin = plan.request().pinned_block();
    if (!pin || plan.layout.implementation != Implementation::w4a16) continue;
    const i64 tokens = plan.request().capacity.tokens();
    const BlockRange range =
        reachable_blocks(tokens, plan.request().capacity.routes_per_token(), plan.layout.route_experts);
    const int index = block_size_index(*pin);
    if (index >= range.first && index <= range.last) continue;
    MoeRequest selected = plan.request();
    selected.capacity.block_size_m = kBlockSizes[range.last];
    const auto other = plan_moe(selected);
    const i64 wasted = other ? max_of(plan.layout.total_bytes - other->total_bytes, 0) : 0;
    c.out.push_back(
        {plan.origin.config_pointer("/capacity/block_size_m"),
         concat(plan_name(plan.id()), ": block ", *pin, " is pinned, and no launch of up to ", tokens,
                " tokens would select it: ", mib(wasted), " more than block ", kBlockSizes[range.last]),
         concat("pin ", kBlockSizes[range.last]), wasted});
  }
}

void check_trellis_pin(const RuleCase& c) {
  for (const DeployedPlan& plan : c.subject.plans) {
    if (!is_unpinned(plan) || plan.layout.weight_layout != WeightLayout::trellis ||
        !plan.request().contract->trellis_launch_needs_pin)
      continue;
    c.out.push_back(
        {plan.origin.config_pointer("/capacity/block_size_m"),
         concat(plan_name(plan.id()), ": launch planning refuses a Trellis plan without a pinned block"),
         ""});
  }
}

// Plans that reserve the same shape, each with its own arena.
void check_duplicates(const RuleCase& c) {
  const auto& plans = c.subject.plans;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    std::vector<std::string> twins;
    for (std::size_t j = i + 1; j < plans.size(); ++j) {
      const bool same = plans[i].arena != plans[j].arena && plans[i].engine_made() &&
                        plans[j].engine_made() &&
                        plans[i].layout.total_bytes == plans[j].layout.total_bytes &&
                        plans[i].request().capacity.tokens() == plans[j].request().capacity.tokens();
      if (same) twins.push_back(plans[j].id());
    }
    if (twins.empty()) continue;
    const i64 bytes = static_cast<i64>(twins.size()) * plans[i].layout.total_bytes;
    c.out.push_back({"/deployment/draft_is_exl3",
                     concat("plans ", plans[i].id(), " and ", join(twins, ", "),
                            " reserve the same shape twice: sharing one arena would save ", mib(bytes),
                            worth(c.subject.now, bytes)),
                     "", bytes});
  }
}

// As many equal stated plans as the model has MoE layers: one arena a layer.
void check_layer_arenas(const RuleCase& c) {
  const auto& plans = c.subject.plans;
  const auto& model = c.subject.deployment.model;
  // Without a model, more equal plans than anybody has roles for.
  constexpr i64 kManyPlans = 16;
  const i64 layers = (model ? moe_layers(*model) : std::nullopt).value_or(kManyPlans);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const auto same = [&](const DeployedPlan& other) {
      return !other.engine_made() && other.layout.total_bytes == plans[i].layout.total_bytes &&
             other.request().capacity.tokens() == plans[i].request().capacity.tokens();
    };
    const bool is_first = std::none_of(plans.begin(), plans.begin() + static_cast<std::ptrdiff_t>(i), same);
    const i64 count = std::ranges::count_if(plans, same);
    if (plans[i].engine_made() || !is_first || count < max_of(layers, 2)) continue;
    const i64 bytes = (count - 1) * plans[i].layout.total_bytes;
    c.out.push_back({plans[i].origin.config_pointer(""),
                     concat(count, " plans reserve the shape of ", plan_name(plans[i].id()),
                            ": an arena a layer costs ", mib(bytes), " more than one that the layers share"),
                     "", bytes});
  }
}

void check_floor(const RuleCase& c) {
  for (const DeployedPlan& plan : c.subject.plans) {
    for (const UnusedBytes& unused : unscheduled_bytes(plan, {}))
      c.out.push_back(
          {plan.origin.config_pointer("/capacity/max_tokens"),
           concat(plan_name(plan.id()), ": ", unused.why, ": ", mib(unused.bytes), " for nothing"), "",
           unused.bytes});
  }
}

void check_soundness(const RuleCase& c) {
  for (const DeployedPlan& plan : c.subject.plans) {
    if (plan.layout.implementation != Implementation::w4a16) continue;
    for (ExpertMap map : {ExpertMap::absent, ExpertMap::present}) {
      if (!plan.may_have(map)) continue;
      const MoeAudit audit = audit_moe(plan.request(), plan.layout, map);
      for (const TensorAudit& tensor : audit.tensors) {
        if (!tensor.short_at) continue;
        c.out.push_back({plan.origin.config_pointer("/capacity/max_tokens"),
                         concat(plan_name(plan.id()), ": ", tensor.name, " is short by ",
                                grouped((tensor.short_need - tensor.planned) * tensor.item_bytes), " B at m=",
                                *tensor.short_at, map == ExpertMap::present ? " with an expert map" : "",
                                ": ", text_of(tensor.consequence)),
                         join(sound_alternatives(plan.request(), map), "; ")});
      }
    }
  }
}

}  // namespace moeplan
