#include "cli/commands/explain_config.hpp"

#include "planner/core/text.hpp"
#include "planner/deployment/exl3_settings.hpp"

namespace moeplan {
namespace {

// "glm52.json:48", "--set", "--contract".
std::string place_text(const Place& place) {
  return place.source.starts_with("--") ? std::string(place.source) : concat(place.source, ":", place.line);
}

void add_fields(const JsonDocument& document, const JsonNode& node, Table& table) {
  if (node.type == JsonType::object || node.type == JsonType::array) {
    for (const JsonNode* child = document.first_child(node); child; child = document.next(*child))
      add_fields(document, *child, table);
    return;
  }
  const std::string_view raw = document.raw(node);
  const bool reads_variable = node.type == JsonType::string && document.text(node).starts_with("${");
  table.rows.push_back(
      {{document.pointer(node), std::string(raw), std::string(reads_variable ? "environment" : "stated"),
        place_text(document.place(node))},
       {}});
}

// What the engine decides because the config does not.
void add_engine_defaults(const Deployment& deployment, Table& table) {
  if (!deployment.engine || !is_exl3(deployment)) return;
  for (const Exl3Variable& variable : exl3_variables()) {
    if (variable.default_text.empty() || find_variable(deployment.engine->env, variable.name)) continue;
    table.rows.push_back({{environment_pointer(variable.name), std::string(variable.default_text),
                           std::string("default"), std::string("the engine's default")},
                          {}});
  }
}

}  // namespace

Report config_report(const PlannedConfig& planned) {
  const Config& config = *planned.config;
  Table table;
  table.key = "fields";
  table.columns = {{"pointer", "FIELD"}, {"value", "VALUE"}, {"kind", "KIND"}, {"from", "FROM"}};
  add_fields(config.document, config.document.root(), table);
  const auto stated = static_cast<i64>(table.rows.size());
  add_engine_defaults(config.deployment, table);
  const i64 defaults = static_cast<i64>(table.rows.size()) - stated;

  Report report;
  report.schema = "moeplan.config_report/1";
  report.verdict =
      concat(config.name, ": ", stated, " fields stated, ", defaults, " left to the engine's defaults");
  report.totals = {{"stated", stated}, {"defaults", defaults}};
  report.tables.push_back(std::move(table));
  return report;
}

}  // namespace moeplan
