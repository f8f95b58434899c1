#include "cli/commands/launch_key.hpp"

#include <algorithm>

#include "cli/commands/plan_choice.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/launch_findings.hpp"

namespace moeplan {
namespace {

// The index of the one plan that is meant; none where there are several or none.
std::optional<std::size_t> only_plan(const std::vector<PlanLaunches>& all, const std::string& choice) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!is_chosen(all[i].id, choice)) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

// "[6144,512,…]", as an engine logs a key.
std::string key_json(const KeyElements& elements) {
  std::vector<std::string> parts;
  for (const KeyElement& element : elements) {
    const auto* nested = std::get_if<KeyElements>(&element.value);
    parts.push_back(nested ? key_json(*nested) : value_text(element));
  }
  return concat("[", join(parts, ","), "]");
}

Cell cell_of(const KeyElement& element) {
  if (const auto* truth = std::get_if<bool>(&element.value)) return *truth;
  if (const auto* number = std::get_if<i64>(&element.value)) return *number;
  if (const auto* text = std::get_if<std::string_view>(&element.value)) return std::string(*text);
  return RawJson{value_text(element)};
}

void add_elements(Table& table, std::string_view prefix, const KeyElements& elements,
                  const KeyElements& others) {
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (std::holds_alternative<KeyElements>(elements[i].value)) continue;
    table.rows.push_back({{concat(prefix, i), concat(prefix, elements[i].name), cell_of(elements[i]),
                           cell_of(others[i]), value_text(elements[i]) == value_text(others[i])},
                          {}});
  }
}

Table elements_table(const LaunchKey& key, const LaunchKey& prewarmed) {
  Table table;
  table.key = "elements";
  table.title = "elements, beside those of the kernel compiled with the plan";
  table.columns = {{"index", "I"},
                   {"name", "ELEMENT"},
                   {"value", "VALUE"},
                   {"prewarmed", "PREWARMED"},
                   {"equal", "EQUAL"}};
  const KeyElements elements = elements_of(key), others = elements_of(prewarmed);
  add_elements(table, "", elements, others);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (const auto* nested = std::get_if<KeyElements>(&elements[i].value))
      add_elements(table, concat(elements[i].name, "."), *nested, std::get<KeyElements>(others[i].value));
  }
  return table;
}

// What compiles the key early, as runs have it; none where no step brings that many tokens.
std::optional<Warmth> warmth_of(const PlanLaunches& launches, i64 tokens) {
  for (const KeyRun& run : launches.runs) {
    if (run.tokens.contains(tokens)) return run.warmth;
  }
  return std::nullopt;
}

}  // namespace

std::vector<i64> tiles_of(const LaunchKey& key) {
  return {key.fc1.tile.k, key.fc1.tile.n, key.fc2.tile.k, key.fc2.tile.n};
}

Result<i64> shared_memory_of(const Deployment& deployment) {
  if (deployment.device && deployment.device->shared_memory_per_block_optin)
    return *deployment.device->shared_memory_per_block_optin;
  return Error{ErrorCode::missing_field, "/device/shared_memory_per_block_optin",
               "shared_memory_per_block_optin is missing: which tile a launch selects depends on it",
               "configs/devices/ has it for known devices; 101376 on sm_120"};
}

Result<Report> launch_key_report(const PlannedConfig& planned, const std::vector<DeployedPlan>& plans,
                                 const LaunchOptions& options) {
  const i64 tokens = *options.live_tokens;
  const auto shared_memory = shared_memory_of(planned.config->deployment);
  if (!shared_memory) return shared_memory.error();
  const auto all = launches_of(stepped(plans), *shared_memory);
  const auto index = only_plan(all, options.plan);
  if (!index)
    return Error{ErrorCode::unknown_value, "",
                 "--live-tokens needs --plan where there are several plans or none",
                 "name the plan whose launch is meant"};
  const PlanLaunches& launches = all[*index];
  const DeploymentRequest& origin = plans[*index].origin;
  if (launches.failure) return located(origin, *launches.failure);
  const LaunchPlan& plan = *launches.plan;
  if (tokens < 1)
    return Error{ErrorCode::out_of_range, "", "--live-tokens 0: a launch has at least one token", ""};
  if (tokens > plan.capacity)
    return Error{
        ErrorCode::out_of_range, "",
        concat("--live-tokens ", tokens, " is more than ", plan_name(launches.id), " holds: ", plan.capacity),
        "a larger step is sliced: ask for one slice"};
  if (!plan.contract->launch_key_known)
    return Error{ErrorCode::launch_not_modelled, "/contract",
                 concat("the elements of launch keys under ", plan.contract->id, " are not known"),
                 "without --live-tokens its kernels are counted all the same"};
  const auto key = launch_key(plan, tokens);
  if (!key) return located(origin, key.error());
  const bool prewarmed = std::ranges::find(launches.prewarmed, *key) != launches.prewarmed.end();
  const auto warmth = warmth_of(launches, tokens);

  Report report;
  report.schema = "moeplan.launch_key/1";
  report.verdict = concat(
      plan_name(launches.id), ", m=", tokens, ": max_m_blocks ", key->max_m_blocks(), ", tiles ",
      join(tiles_of(*key), "x"), ", compiled ",
      warmth ? compiled_text(*warmth)
             : concat(compiled_text({.prewarmed = prewarmed}), "; no step of this deployment brings it"));
  report.facts = {{"plan", launches.id},
                  {"capacity", plan.capacity},
                  {"block_size_m", plan.tiles.block},
                  {"live_tokens", tokens},
                  {"key", RawJson{key_json(elements_of(*key))}},
                  {"max_m_blocks", key->max_m_blocks()},
                  {"tiles", tiles_of(*key)},
                  {"blocks_per_sm", key->blocks_per_sm},
                  {"shared_words", key->shared_words},
                  {"prewarmed", prewarmed},
                  {"reached", warmth.has_value()},
                  {"cold", warmth ? Cell(warmth->cold()) : Cell()}};
  report.tables.push_back(elements_table(*key, launches.prewarmed.back()));
  return report;
}

}  // namespace moeplan
