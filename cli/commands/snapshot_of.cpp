#include "cli/commands/snapshot_of.hpp"

#include "cli/io/json_writer.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// The sections that plans follow from; what is measured or only named does not change them.
constexpr std::string_view kPlanningSections[] = {"contract", "model",      "quant", "parallel",
                                                  "device",   "deployment", "ranks", "plans"};
constexpr std::string_view kWords[] = {"name", "source", "memory_note", "engine"};

std::string json_text(const JsonDocument& document, const JsonNode& node) {
  if (node.type != JsonType::string) return std::string(document.raw(node));
  std::string out;
  JsonWriter(out).value(document.text(node));
  return out;
}

void add_settings(const JsonDocument& document, const JsonNode& node, Environment& settings) {
  const std::string_view key = document.key(node);
  if (key.starts_with("x-")) return;
  if (node.type == JsonType::object || node.type == JsonType::array) {
    for (const JsonNode* child = document.first_child(node); child; child = document.next(*child))
      add_settings(document, *child, settings);
    return;
  }
  for (std::string_view word : kWords) {
    if (key == word) return;
  }
  if (node.type != JsonType::null) settings.emplace_back(document.pointer(node), json_text(document, node));
}

Environment settings_of(const JsonDocument& document) {
  Environment settings;
  for (std::string_view section : kPlanningSections) {
    if (const JsonNode* node = document.find(document.root(), section))
      add_settings(document, *node, settings);
  }
  return settings;
}

// What ${NAME} stood for counts, not its spelling.
void resolve_variables(const Deployment& deployment, Environment& settings) {
  if (!deployment.engine) return;
  const EngineSettings& engine = *deployment.engine;
  const std::pair<std::string_view, std::optional<i64>> values[] = {
      {"/deployment/max_num_batched_tokens", engine.max_num_batched_tokens},
      {"/deployment/max_num_seqs", engine.max_num_seqs},
      {"/deployment/max_model_len", engine.max_model_len},
      {"/deployment/num_speculative_tokens", engine.num_speculative_tokens}};
  for (auto& [pointer, text] : settings) {
    for (const auto& [name, value] : values) {
      if (pointer == name && value) text = std::to_string(*value);
    }
  }
}

SnapshotArena arena_of_part(const RuntimePart& part) {
  SnapshotArena arena{part.name, false, part.bytes, {}, {}};
  for (const Buffer& buffer : part.buffers) arena.tensors.push_back({std::string(buffer.name), buffer.bytes});
  return arena;
}

Cell change_cell(const Change<i64>& change) {
  return change.before || change.after ? Cell(growth_of(change)) : Cell();
}

Table totals_table(const Difference& d) {
  Table table;
  table.key = "totals_change";
  table.columns = {{"what", "WHAT"},
                   {"before", "BEFORE", ColumnKind::count},
                   {"after", "AFTER", ColumnKind::count},
                   {"change", "CHANGE", ColumnKind::count}};
  const std::pair<std::string_view, const Change<i64>*> rows[] = {
      {"MoE scratch, bytes a rank", &d.moe_bytes},
      {"indexer arenas, bytes a rank", &d.indexer_bytes},
      {"MoE scratch with staging, bytes of the largest rank", &d.runtime_bytes},
      {"allocated after the profile, bytes", &d.late_bytes},
      {"KV cache, tokens", &d.kv_tokens},
      {"KV cache, bytes a token", &d.kv_bytes_per_token},
      {"launch keys", &d.launch_keys},
      {"cold launch keys", &d.cold_keys}};
  for (const auto& [what, change] : rows) {
    if (!change->before && !change->after) continue;
    // A figure that one side does not know is not nothing: how much it changed is not known either.
    const bool both_known = change->before && change->after;
    table.rows.push_back({{std::string(what), optional_cell(change->before), optional_cell(change->after),
                           both_known ? change_cell(*change) : Cell()},
                          {}});
  }
  return table;
}

Table changes_table(const Difference& d, bool all) {
  Table table;
  table.key = "changes";
  table.title = "by tensor";
  table.columns = {{"arena", "ARENA"},
                   {"tensor", "TENSOR"},
                   {"before", "BEFORE", ColumnKind::bytes},
                   {"after", "AFTER", ColumnKind::bytes},
                   {"change", "CHANGE", ColumnKind::bytes}};
  const auto add = [&](const std::string& arena, std::string tensor, const Change<i64>& bytes) {
    table.rows.push_back({{arena, std::move(tensor), optional_cell(bytes.before), optional_cell(bytes.after),
                           change_cell(bytes)},
                          {}});
  };
  for (const ArenaChange& arena : d.arenas) {
    for (const TensorChange& t : arena.tensors) {
      if (all || t.bytes.before != t.bytes.after)
        add(arena.id, t.tensor.empty() ? "padding and tails" : t.tensor, t.bytes);
    }
    if (all || arena.bytes.before != arena.bytes.after) add(arena.id, "all of it", arena.bytes);
  }
  return table;
}

Table settings_table(const Difference& d) {
  Table table;
  table.key = "settings";
  table.title = "changed settings";
  table.columns = {{"pointer", "FIELD"}, {"before", "BEFORE"}, {"after", "AFTER"}};
  for (const SettingChange& s : d.settings)
    table.rows.push_back({{s.pointer, s.value.before ? Cell(*s.value.before) : Cell(),
                           s.value.after ? Cell(*s.value.after) : Cell()},
                          {}});
  return table;
}

}  // namespace

Snapshot snapshot_of(const PlannedConfig& planned, std::string path) {
  const Deployment& deployment = planned.config->deployment;
  Snapshot snapshot;
  snapshot.config = std::move(path);
  snapshot.name = deployment.name.value_or("");
  snapshot.contract = planned.contract_names();
  for (const PlannedRequest& plan : planned.plans) {
    if (const MoeLayout* layout = plan.moe()) {
      snapshot.moe_bytes += layout->total_bytes;
      snapshot.arenas.push_back(arena_of(plan.id(), false, layout->arena, layout->total_bytes));
    } else if (plan.origin.request.kind < RequestKind::indexer_fold) {
      const IndexerLayout& layout_of_indexer = *plan.indexer();
      snapshot.indexer_bytes += layout_of_indexer.total_bytes;
      snapshot.arenas.push_back(
          arena_of(plan.id(), true, layout_of_indexer.arena, layout_of_indexer.total_bytes));
    }
  }
  for (const RuntimePart& part : planned.mixed_parts) {
    snapshot.moe_bytes += part.bytes;
    snapshot.arenas.push_back(arena_of_part(part));
  }
  for (const DeployedIndexer& plan : planned.indexer_plans)
    snapshot.late_bytes = max_of(snapshot.late_bytes, plan.late.bytes);
  add_deployment_figures(snapshot, deployment);
  snapshot.settings = settings_of(planned.config->document);
  resolve_variables(deployment, snapshot.settings);
  return snapshot;
}

std::vector<Table> difference_tables(const Difference& difference, bool all) {
  return {totals_table(difference), changes_table(difference, all), settings_table(difference)};
}

}  // namespace moeplan
