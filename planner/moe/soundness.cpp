#include "planner/moe/soundness.hpp"

#include <algorithm>

#include "planner/moe/geometry.hpp"

namespace moeplan {
namespace {

Consequence consequence_of(CoreTensor tensor, bool small_m) {
  switch (tensor) {
    case CoreTensor::fc1_c_tmp:
    case CoreTensor::fc2_c_tmp:
      return Consequence::allocates;
    case CoreTensor::packed_route_indices:
    case CoreTensor::block_expert_ids:
      return Consequence::refused;
    case CoreTensor::intermediate_cache2:
      return small_m ? Consequence::refused : Consequence::out_of_bounds;
    default:
      return Consequence::out_of_bounds;
  }
}

class Auditor {
 public:
  Auditor(const LiveRuntime& runtime, const MoeLayout& layout)
      : runtime_(runtime), planned_(planned_elements(layout)) {
    for (const TensorSpec& tensor : layout.arena.tensors) {
      if (tensor.region != Region::core) continue;
      for (std::size_t i = 0; i < kCoreTensorCount; ++i) {
        if (name_of(static_cast<CoreTensor>(i)) != tensor.name) continue;
        audit_.tensors.push_back(
            {.name = tensor.name, .item_bytes = item_bytes(tensor.dtype), .planned = planned_[i]});
        kinds_.push_back(static_cast<CoreTensor>(i));
      }
    }
  }

  MoeAudit every_count() {
    for (i64 tokens = 1; tokens <= runtime_.capacity; ++tokens) {
      const LiveNeed need = live_need(runtime_, planned_, tokens);
      note_block(need.block_size, {tokens, tokens});
      for (std::size_t i = 0; i < audit_.tensors.size(); ++i) note(i, tokens, need);
    }
    return finish(true);
  }

  // Within a range needs only rise: its last count decides, and the first that needs as much is searched.
  MoeAudit peaks() {
    for (const LiveRange& range : rising_ranges(runtime_)) {
      const LiveNeed last = live_need(runtime_, planned_, range.last);
      note_block(last.block_size, range);
      for (std::size_t i = 0; i < audit_.tensors.size(); ++i) {
        const TensorAudit& tensor = audit_.tensors[i];
        const i64 most = elements(last, i);
        if (!tensor.short_at && most > tensor.planned) note_first(i, range, tensor.planned + 1);
        if (most > tensor.needed) note_first(i, range, most);
      }
    }
    return finish(false);
  }

 private:
  i64 elements(const LiveNeed& need, std::size_t i) const {
    return need.elements[static_cast<std::size_t>(kinds_[i])];
  }

  void note(std::size_t i, i64 tokens, const LiveNeed& need) {
    TensorAudit& tensor = audit_.tensors[i];
    const i64 needs = elements(need, i);
    if (needs > tensor.needed) {
      tensor.needed = needs;
      tensor.needed_at = tokens;
    }
    if (tensor.short_at || needs <= tensor.planned) return;
    tensor.short_at = tokens;
    tensor.short_need = needs;
    // The lean executor asks for the room of every tensor before it launches anything.
    tensor.consequence =
        runtime_.lean_executor ? Consequence::refused : consequence_of(kinds_[i], need.small_m);
  }

  // Notes the first count of `range` at which tensor i needs that many elements.
  void note_first(std::size_t i, LiveRange range, i64 least) {
    while (range.first < range.last) {
      const i64 middle = range.first + (range.last - range.first) / 2;
      if (elements(live_need(runtime_, planned_, middle), i) >= least)
        range.last = middle;
      else
        range.first = middle + 1;
    }
    note(i, range.first, live_need(runtime_, planned_, range.first));
  }

  void note_block(i64 block_size, const LiveRange& tokens) {
    if (audit_.blocks.empty() || audit_.blocks.back().block_size != block_size)
      audit_.blocks.push_back({block_size, tokens});
    else
      audit_.blocks.back().tokens.last = tokens.last;
  }

  MoeAudit finish(bool exhaustive) {
    audit_.capacity = runtime_.capacity;
    audit_.direct_tokens = runtime_.direct_tokens;
    audit_.exhaustive = exhaustive;
    return std::move(audit_);
  }

  const LiveRuntime runtime_;
  const CoreElements planned_;
  std::vector<CoreTensor> kinds_;  // of audit_.tensors
  MoeAudit audit_;
};

}  // namespace

std::optional<i64> MoeAudit::counter_example() const {
  std::optional<i64> smallest;
  for (const TensorAudit& tensor : tensors) {
    if (tensor.short_at && (!smallest || *tensor.short_at < *smallest)) smallest = tensor.short_at;
  }
  return smallest;
}

MoeAudit audit_moe(const MoeRequest& request, const MoeLayout& layout, ExpertMap map, AuditSearch search) {
  Auditor auditor(live_runtime(request, layout, map), layout);
  MoeAudit audit = search == AuditSearch::exhaustive ? auditor.every_count() : auditor.peaks();
  audit.map = map;
  return audit;
}

}  // namespace moeplan
