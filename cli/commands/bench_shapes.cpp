#include "cli/commands/bench_shapes.hpp"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "cli/commands/number_lists.hpp"
#include "planner/core/limits.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/launch_findings.hpp"

namespace moeplan {
namespace {

constexpr i64 kMostShapes = 1024;  // of a run
constexpr i64 kMostRows = 65'536;

constexpr NumberRule kRows = {"--rows", "1,4,16,48", 1, kMostRows};
constexpr NumberRule kContexts = {"--context",     "8k,32k,128k", kKernelPageSize, kMaxTokens, {},
                                  kKernelPageSize, true};
constexpr NumberRule kHeads = {"--heads", "32,64", 1, 64, kIndexerHeads};
constexpr NumberRule kGroup = {"--group", "4", 1, kMostRows};
constexpr NumberRule kTopK = {"--top-k", "2048", 1, 2048, kIndexerTopK};

// `plan_id`: whose requests have `group` rows where --group says nothing.
Result<std::vector<IndexerShape>> combined(const ShapeLists& lists, bool is_prefill, i64 group,
                                           std::string_view plan_id) {
  if (std::ssize(lists.heads) * std::ssize(lists.rows) * std::ssize(lists.contexts) > kMostShapes)
    return Error{ErrorCode::invalid_value, "",
                 concat("--heads, --rows and --context make more than ", grouped(kMostShapes), " shapes"),
                 "time them in several runs"};
  std::vector<IndexerShape> shapes;
  for (const i64 heads : lists.heads) {
    for (const i64 rows : lists.rows) {
      if (!is_prefill && rows % group != 0)
        return Error{
            ErrorCode::invalid_value, "",
            concat(lists.group ? concat("--group ", group) : plan_name(plan_id), ": ", rows,
                   rows == 1 ? " row is" : " rows are", " no whole number of requests of ", group, " rows"),
            concat("give --rows that ", group, " divides",
                   lists.group ? "" : ", or --group 1 for rows of requests of their own")};
      for (const i64 context : lists.contexts)
        shapes.push_back({heads, rows, is_prefill ? rows : group, context, lists.top_k, is_prefill});
    }
  }
  return shapes;
}

}  // namespace

Result<ShapeLists> read_shape_lists(const BenchOptions& options) {
  ShapeLists lists;
  const std::tuple<const NumberRule*, const std::optional<std::string>*, std::vector<i64>*> all[] = {
      {&kHeads, &options.heads, &lists.heads},
      {&kRows, &options.rows, &lists.rows},
      {&kContexts, &options.context, &lists.contexts}};
  for (const auto& [rule, text, numbers] : all) {
    auto read = read_list(*rule, *text);
    if (!read) return read.error();
    *numbers = std::move(*read);
  }
  const auto group = read_number(kGroup, options.group);
  if (!group) return group.error();
  const auto top_k = read_number(kTopK, options.top_k);
  if (!top_k) return top_k.error();
  const auto bandwidth = read_number(kBandwidthRule, options.bandwidth_gb_s);
  if (!bandwidth) return bandwidth.error();
  if (*group && options.is_prefill)
    return refusal(kGroup, *options.group, "rows of a prefill share the pages of one request");
  lists.group = *group;
  lists.top_k = top_k->value_or(lists.top_k);
  lists.bandwidth_gb_s = *bandwidth;
  return lists;
}

Result<std::vector<IndexerShape>> listed_shapes(const ShapeLists& lists, bool is_prefill) {
  const std::pair<const NumberRule*, const std::vector<i64>*> all[] = {
      {&kHeads, &lists.heads}, {&kRows, &lists.rows}, {&kContexts, &lists.contexts}};
  for (const auto& [rule, numbers] : all) {
    if (numbers->empty())
      return Error{ErrorCode::missing_field, "",
                   concat(rule->option, " is missing, and no config states its plan's"),
                   concat("for example ", rule->option, " ", rule->example, ", or -c configs/glm52.json")};
  }
  return combined(lists, is_prefill, lists.group.value_or(1), "");
}

Result<std::vector<IndexerShape>> planned_shapes(const ShapeLists& lists, const std::string& plan_id,
                                                 const IndexerPlan& plan, i64 rows_per_request) {
  ShapeLists own = lists;
  own.heads = {plan.heads};
  own.top_k = plan.top_k;
  if (own.rows.empty()) own.rows = {plan.rows};
  if (own.contexts.empty()) own.contexts = {plan.pages * kKernelPageSize};
  const i64 rows = std::ranges::max(own.rows), context = std::ranges::max(own.contexts);
  const auto beyond = [&](std::string_view option, i64 asked, i64 capacity, std::string_view what) {
    return Error{ErrorCode::invalid_value, "",
                 concat(option, ": plan ", plan_id, " has room for ", grouped(capacity), " ", what,
                        ", not for ", grouped(asked)),
                 concat("give less, leave ", option, " out, or choose another plan with --plan")};
  };
  if (rows > plan.rows) return beyond("--rows", rows, plan.rows, "rows");
  if (context > plan.pages * kKernelPageSize)
    return beyond("--context", context, plan.pages * kKernelPageSize, "tokens");
  return combined(own, plan.route == IndexerRoute::packed_contiguous, lists.group.value_or(rows_per_request),
                  plan_id);
}

}  // namespace moeplan
