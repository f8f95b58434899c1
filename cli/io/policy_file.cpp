#include "cli/io/policy_file.hpp"

#include <algorithm>
#include <utility>

#include "cli/io/text_file.hpp"
#include "planner/core/did_you_mean.hpp"
#include "planner/core/text.hpp"
#include "planner/policy/rules.hpp"

namespace moeplan {
namespace {

constexpr i64 kMostCount = i64{1} << 50;

bool is_date(std::string_view text) { return parse_date(text).has_value(); }

constexpr Field kRuleFields[] = {
    choice<&RuleSettings::level>("level", kRuleLevelNames, "off, note, warning or error"),
    byte_size<&RuleSettings::max_per_rank_bytes>("max_per_rank_bytes", "MoE scratch of a rank"),
    byte_size<&RuleSettings::max_indexer_bytes>("max_indexer_bytes", "indexer arenas of a rank"),
    byte_size<&RuleSettings::max_late_bytes>("max_late_bytes", "what a call may allocate after the profile"),
    byte_size<&RuleSettings::max_increase>("max_increase", "growth above the baseline"),
    integer<&RuleSettings::max_increase_pct>("max_increase_pct", 0, 1'000'000,
                                             "growth above the baseline, in per cent of it"),
    byte_size<&RuleSettings::slack>("slack", "how far the baseline may lag above"),
    millionths<&RuleSettings::min_coverage>("min_coverage",
                                            "share of live token counts whose kernel is compiled early"),
    integer<&RuleSettings::max_new_cold_keys>("max_new_cold_keys", 0, kMostCount,
                                              "cold kernels above the baseline's"),
    integer<&RuleSettings::min_kv_tokens>("min_kv_tokens", 0, kMostCount, "tokens the KV cache has to hold"),
    integer<&RuleSettings::max_lost_kv_tokens>("max_lost_kv_tokens", 0, kMostCount,
                                               "KV tokens below the baseline's"),
};

constexpr Field kWaiverFields[] = {
    text<&Waiver::rule>("rule", "the rule's id, such as MP020").required(),
    text<&Waiver::config>("config", "a path, its last part, or *").required(),
    text<&Waiver::until>("until", "the last day, such as 2026-12-31").required().accepting(is_date),
    text<&Waiver::reason>("reason", "why, for whoever reads the report").required(),
};

enum class Extends { default_policy, nothing };
constexpr std::string_view kExtends[] = {"default", "nothing"};

// By rule, in the order of policy_rules().
struct RulesObject {
  std::vector<RuleSettings> rules;
  std::vector<bool> named;
};

struct PolicyHeader {
  i64 schema_version = 0;
  std::optional<std::string> schema;
  std::optional<Extends> extends;
  RulesObject rules;
  std::vector<Waiver> waivers;
};

constexpr std::size_t kMostRules = 32;

// One row a rule: its settings are an object of their own.
template <std::size_t... Index>
std::vector<Field> make_rules_fields(std::index_sequence<Index...>) {
  const std::vector<void* (*)(void*)> enter = {[](void* object) -> void* {
    auto* rules = static_cast<RulesObject*>(object);
    rules->named[Index] = true;
    return &rules->rules[Index];
  }...};
  std::vector<Field> fields;
  for (std::size_t i = 0; i < policy_rules().size(); ++i)
    fields.push_back({.name = policy_rules()[i].id,
                      .doc = policy_rules()[i].title,
                      .type = FieldType::object,
                      .fields = kRuleFields,
                      .enter = enter[i]});
  return fields;
}

std::string unknown_rule_help(std::string_view id) {
  std::vector<std::string_view> ids;
  for (const PolicyRule& rule : policy_rules()) ids.push_back(rule.id);
  const auto near = did_you_mean(id, ids);
  return near ? concat("did you mean \"", *near, "\"?") : "moeplan help rules lists them";
}

// A limit that its rule does not look at would be a gate that never closes.
void check_limits(FieldContext& context, const JsonNode& node, const PolicyRule& rule) {
  const JsonDocument& document = context.document;
  for (const JsonNode* member = document.first_child(node); member; member = document.next(*member)) {
    const std::string_view name = document.key(*member);
    const bool known = std::ranges::any_of(kRuleFields, [&](const Field& f) { return f.name == name; });
    if (!known || name == "level" || std::ranges::find(rule.limits, name) != rule.limits.end()) continue;
    add_problem(context, *member, ErrorCode::unknown_key, concat("rule ", rule.id, " has no limit ", name),
                rule.limits.empty() ? "it takes a level alone"
                                    : concat("it takes ", join(rule.limits, ", ", " and ")));
  }
}

void check_all_limits(FieldContext& context) {
  const JsonNode* rules = context.document.find(context.document.root(), "rules");
  if (!rules || rules->type != JsonType::object) return;
  for (const JsonNode* node = context.document.first_child(*rules); node;
       node = context.document.next(*node)) {
    const int rule = find_rule(context.document.key(*node));
    if (rule >= 0) check_limits(context, *node, policy_rules()[static_cast<std::size_t>(rule)]);
  }
}

void check_waivers(FieldContext& context, const std::vector<Waiver>& waivers) {
  const JsonNode* list = context.document.find(context.document.root(), "waivers");
  if (!list || list->type != JsonType::array) return;
  std::size_t index = 0;
  for (const JsonNode* node = context.document.first_child(*list); node && index < waivers.size();
       node = context.document.next(*node), ++index) {
    const JsonNode* rule = context.document.find(*node, "rule");
    if (rule && find_rule(waivers[index].rule) < 0)
      add_problem(context, *rule, ErrorCode::unknown_value,
                  concat("there is no rule \"", waivers[index].rule, "\""),
                  unknown_rule_help(waivers[index].rule));
  }
}

}  // namespace

std::span<const Field> policy_fields() {
  MOEPLAN_CHECK(policy_rules().size() <= kMostRules, "more rules than rows for them");
  static const std::vector<Field> kRules = make_rules_fields(std::make_index_sequence<kMostRules>());
  static const Field kRows[] = {
      text<&PolicyHeader::schema>("$schema", "JSON Schema of this file, for editors"),
      integer<&PolicyHeader::schema_version>("schema_version", 1, 1, "version of this format: 1").required(),
      choice<&PolicyHeader::extends>("extends", kExtends,
                                     "default: rules that are not named keep their own levels and limits"),
      object<&PolicyHeader::rules>("rules", kRules, "by rule: its level and limits"),
      object_list<&PolicyHeader::waivers>("waivers", kWaiverFields, "what is let through until when")};
  return kRows;
}

std::unique_ptr<PolicyFile> parse_policy(std::string name, std::string text) {
  auto file = std::make_unique<PolicyFile>();
  file->name = std::move(name);
  file->text = std::move(text);
  file->policy = default_policy();
  JsonDocument& document = file->document;
  if (auto parsed = document.parse(file->text, file->name); !parsed) {
    file->problems.push_back({parsed.error(), document.error_place()});
    return file;
  }
  FieldContext context{.document = document, .problems = file->problems};
  if (document.root().type != JsonType::object) {
    add_problem(context, document.root(), ErrorCode::wrong_type,
                concat("a policy must be an object, got ", name_of(document.root().type)),
                "write {\"schema_version\": 1, \"rules\": {}}");
    return file;
  }
  PolicyHeader header;
  header.rules.rules.resize(policy_rules().size());
  header.rules.named.resize(policy_rules().size());
  read_fields(context, document.root(), policy_fields(), &header);
  check_all_limits(context);
  // "nothing": only rules that are named count.
  for (std::size_t i = 0; i < header.rules.rules.size(); ++i) {
    if (header.extends == Extends::nothing && !header.rules.named[i])
      header.rules.rules[i].level = RuleLevel::off;
  }
  file->policy.rules = std::move(header.rules.rules);
  file->policy.waivers = std::move(header.waivers);
  check_waivers(context, file->policy.waivers);
  return file;
}

std::unique_ptr<PolicyFile> read_policy(const std::string& path) {
  if (path.empty()) {
    auto file = std::make_unique<PolicyFile>();
    file->name = "the default policy";
    file->policy = default_policy();
    return file;
  }
  const std::string name = path == "-" ? "stdin" : path;
  auto text = read_text(path);
  if (text) return parse_policy(name, std::move(*text));
  auto file = std::make_unique<PolicyFile>();
  file->name = name;
  file->problems.push_back({text.error(), Place{file->name, 0, 0, {}, 1}});
  return file;
}

}  // namespace moeplan
