#include "planner/moe/reach.hpp"

#include <algorithm>

#include "planner/core/text.hpp"
#include "planner/moe/geometry.hpp"

namespace moeplan {
namespace {

bool is_split_k_scratch(std::string_view name) {
  return name == name_of(CoreTensor::fc1_c_tmp) || name == name_of(CoreTensor::fc2_c_tmp);
}

// Tensors whose size follows from the block size; the others follow from the rows alone.
bool follows_block(std::string_view name) {
  return is_split_k_scratch(name) || name == name_of(CoreTensor::packed_route_indices) ||
         name == name_of(CoreTensor::block_expert_ids);
}

bool follows_experts(std::string_view name) {
  return name == name_of(CoreTensor::expert_offsets) || name == name_of(CoreTensor::expert_counts);
}

std::string blocks_text(const std::vector<LiveBlocks>& blocks) {
  std::vector<std::string> parts;
  for (const LiveBlocks& b : blocks)
    parts.push_back(concat(b.block_size, " at m=", b.tokens.first, "..", b.tokens.last));
  return join(parts, ", ");
}

// The least slack any of the audits finds.
i64 common_slack(std::span<const MoeAudit> audits, std::size_t tensor) {
  i64 slack = audits.front().tensors[tensor].slack_bytes();
  for (const MoeAudit& audit : audits) slack = min_of(slack, audit.tensors[tensor].slack_bytes());
  return max_of(slack, 0);
}

UnusedBytes explain_slack(const MoeLayout& layout, const MoeAudit& audit, std::string_view name, i64 bytes) {
  const std::string tensor(name);
  const i64 bucket = pow2_ceil(audit.capacity);
  if (follows_experts(name))
    return {"router_width", tensor, bytes, "reserved for the router's experts, launches count the weights'"};
  if (follows_block(name) && audit.capacity <= audit.direct_tokens && !is_split_k_scratch(name))
    return {"direct_routes", tensor, bytes,
            "launches of so few tokens take their routes without packing them"};
  if (layout.bound_tokens > bucket)
    return {"listed_tokens", tensor, bytes,
            concat("reserved for the listed count of ", layout.bound_tokens, " tokens, above the capacity ",
                   audit.capacity)};
  if (follows_block(name) && !layout.route_block_size_m)
    return {"unselected_blocks", tensor, bytes,
            concat("reserved for block sizes that launches of so many tokens do not select: they take ",
                   blocks_text(audit.blocks))};
  return {"capacity_padding", tensor, bytes,
          concat("the capacity of ", audit.capacity, " tokens is rounded up to ", layout.bound_tokens)};
}

}  // namespace

bool is_never_written(const MoeLayout& layout, std::string_view tensor) {
  return layout.weight_layout == WeightLayout::trellis && is_split_k_scratch(tensor);
}

std::vector<UnusedBytes> unused_bytes(const MoeRequest& request, const MoeLayout& layout,
                                      std::span<const MoeAudit> audits, bool routes_outside) {
  std::vector<UnusedBytes> unused;
  if (routes_outside && layout.route_bytes > 0)
    unused.push_back({"router_workspace", "", layout.route_bytes,
                      "the integration routes outside the arena and leaves the router's workspace alone"});
  const MoeAudit& audit = audits.front();
  for (std::size_t i = 0; i < audit.tensors.size(); ++i) {
    const TensorAudit& tensor = audit.tensors[i];
    if (is_never_written(layout, tensor.name)) {
      unused.push_back({"whole_tiles", std::string(tensor.name), tensor.planned * tensor.item_bytes,
                        "Trellis kernels compute whole tiles over all of K: without split-K the scratch is "
                        "bound and never written"});
    } else if (const i64 slack = common_slack(audits, i); slack > 0) {
      unused.push_back(explain_slack(layout, audit, tensor.name, slack));
    }
  }
  // Expert-parallel totals are rounded up; that is alignment.
  const i64 tail = layout.total_bytes - layout.arena.end;
  if (request.kind == MoeKind::tensor_parallel && tail > 0) {
    const auto largest = std::ranges::max_element(layout.by_tokens, {}, &CoreBytes::bytes);
    unused.push_back({"arena_tail", "", tail,
                      concat("planned for ", largest->tokens, " tokens needs more than for ",
                             layout.bound_tokens, ", whose tensors are the ones handed out")});
  }
  return unused;
}

}  // namespace moeplan
