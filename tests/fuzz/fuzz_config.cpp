// Any text as a config: it is planned and reported, or refused with a message, never more.
#include <cstdint>
#include <string>

#include "cli/commands/explain_indexer.hpp"
#include "cli/commands/explain_number.hpp"
#include "cli/commands/size.hpp"
#include "cli/render/render.hpp"
#include "planner/core/check.hpp"

using namespace moeplan;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConfigOverrides overrides{.sets = {"/deployment/max_num_batched_tokens=4096"}};
  const auto planned =
      plan_config(parse_config("fuzz", std::string(reinterpret_cast<const char*>(data), size), overrides));
  for (const Problem& problem : planned.config->problems)
    MOEPLAN_CHECK(!problem.error.message.empty(), "an error without a message");
  if (!planned.ok()) {
    MOEPLAN_CHECK(!render_problems(planned.config->problems).empty(), "problems render to nothing");
    return 0;
  }
  for (const PlannedRequest& plan : planned.plans) {
    const ArenaLayout& arena = plan.moe() ? plan.moe()->arena : plan.indexer()->arena;
    const i64 total = plan.moe() ? plan.moe()->total_bytes : plan.indexer()->total_bytes;
    MOEPLAN_CHECK(total >= arena.end, "an arena smaller than its tensors");
  }
  // Formulas evaluate at every size that a config can state; one that does not is a failed check.
  for (const PlannedRequest& plan : planned.plans)
    MOEPLAN_CHECK(explain_number(planned, plan.id()), "an arena that cannot be explained");
  MOEPLAN_CHECK(explain_number(planned, "total"), "a total that cannot be explained");
  (void)explain_number(planned, "kv");
  const Report reports[] = {size_report(planned), explain_indexer_report(planned, true)};
  for (const Format& format : formats())
    MOEPLAN_CHECK(!format.render(std::span<const Report>(reports), {}, {}).empty(),
                  "a report renders to nothing");
  return 0;
}
