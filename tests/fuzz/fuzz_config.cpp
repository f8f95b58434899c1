// Any text as a config: it is read or refused with a place, never more.
#include <cstdint>
#include <string>

#include "cli/commands/size.hpp"
#include "cli/io/config.hpp"
#include "cli/render/render.hpp"
#include "planner/core/check.hpp"
#include "planner/moe/plan_moe.hpp"

using namespace moeplan;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ConfigOverrides overrides{.sets = {"/deployment/max_num_batched_tokens=4096"}};
  const auto config = parse_config("fuzz", std::string(reinterpret_cast<const char*>(data), size), overrides);
  for (const Problem& problem : config->problems)
    MOEPLAN_CHECK(!problem.error.message.empty(), "an error without a message");
  if (!config->problems.empty()) {
    MOEPLAN_CHECK(!render_problems(config->problems).empty(), "problems render to nothing");
    return 0;
  }
  const auto requests = plan_requests(config->deployment);
  if (!requests) return 0;
  for (const DeploymentRequest& entry : *requests) {
    const auto layout = plan_moe(entry.request.moe);
    if (layout) MOEPLAN_CHECK(layout->total_bytes >= layout->arena.end, "an arena smaller than its tensors");
  }
  return 0;
}
