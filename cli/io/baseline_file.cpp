#include "cli/io/baseline_file.hpp"

#include <algorithm>
#include <cstdint>

#include "cli/io/json_writer.hpp"
#include "cli/io/text_file.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr i64 kMost = i64{1} << 58;  // sums and differences of a few stay within 62 bits

constexpr Field kTensorFields[] = {
    text<&NamedBytes::name>("name", "the tensor").required(),
    integer<&NamedBytes::bytes>("bytes", 0, kMost, "its bytes").required(),
};
constexpr Field kArenaFields[] = {
    text<&SnapshotArena::id>("id", "the plan").required(),
    boolean<&SnapshotArena::is_indexer>("is_indexer", "it is the indexer's"),
    integer<&SnapshotArena::bytes>("bytes", 0, kMost, "all of the arena").required(),
    object_list<&SnapshotArena::tensors>("tensors", kTensorFields, "in arena order"),
    integer<&SnapshotArena::cold_keys>("cold_keys", 0, kMost, "kernels of its launches compiled mid-serve"),
};
constexpr Field kSnapshotFields[] = {
    text<&Snapshot::config>("config", "the path it is checked by").required(),
    text<&Snapshot::name>("name", "the deployment's name"),
    text<&Snapshot::contract>("contract", "contracts of its plans").required(),
    integer<&Snapshot::moe_bytes>("moe_bytes", 0, kMost, "MoE scratch of a rank").required(),
    integer<&Snapshot::indexer_bytes>("indexer_bytes", 0, kMost, "indexer arenas of a rank").required(),
    integer<&Snapshot::late_bytes>("late_bytes", 0, kMost, "allocated after the profile").required(),
    integer<&Snapshot::runtime_bytes>("runtime_bytes", 0, kMost,
                                      "of the largest rank: arenas, buffers and parity staging"),
    integer<&Snapshot::kv_bytes_per_token>("kv_bytes_per_token", 1, kMost, "of a rank"),
    integer<&Snapshot::kv_dcp>("kv_dcp", 1, 1 << 20, "ranks that share a request's tokens"),
    integer<&Snapshot::kv_tokens>("kv_tokens", 0, kMost, "that the cache certainly holds"),
    integer<&Snapshot::launch_keys>("launch_keys", 0, kMost, "kernels that launches probe"),
    integer<&Snapshot::cold_keys>("cold_keys", 0, kMost, "of them compiled mid-serve"),
    object_list<&Snapshot::arenas>("arenas", kArenaFields, "arenas and buffers"),
    text_map<&Snapshot::settings>("settings", "by JSON pointer, as JSON text"),
};
constexpr Field kChangeFields[] = {
    text<&BaselineChange::date>("date", "the day").required(),
    text<&BaselineChange::reason>("reason", "why").required(),
};

}  // namespace

std::span<const Field> baseline_fields() {
  static const Field kRows[] = {
      text<&Baseline::schema>("schema", "moeplan.baseline/1"),
      integer<&Baseline::schema_version>("schema_version", 1, 1, "version of this format: 1").required(),
      object_list<&Baseline::history>("history", kChangeFields, "when and why it changed, oldest first"),
      object_list<&Baseline::configs>("configs", kSnapshotFields, "one a config"),
  };
  return kRows;
}

namespace {

void write_optional(JsonWriter& json, std::string_view key, const std::optional<i64>& value) {
  if (value) json.member(key, *value);
}

void write_snapshot(JsonWriter& json, const Snapshot& s) {
  json.begin_object();
  json.member("config", std::string_view(s.config));
  json.member("name", std::string_view(s.name));
  json.member("contract", std::string_view(s.contract));
  json.member("moe_bytes", s.moe_bytes);
  json.member("indexer_bytes", s.indexer_bytes);
  json.member("late_bytes", s.late_bytes);
  write_optional(json, "runtime_bytes", s.runtime_bytes);
  write_optional(json, "kv_bytes_per_token", s.kv_bytes_per_token);
  write_optional(json, "kv_dcp", s.kv_dcp);
  write_optional(json, "kv_tokens", s.kv_tokens);
  write_optional(json, "launch_keys", s.launch_keys);
  write_optional(json, "cold_keys", s.cold_keys);
  json.key("arenas").begin_array();
  for (const SnapshotArena& arena : s.arenas) {
    json.begin_object();
    json.member("id", std::string_view(arena.id));
    if (arena.is_indexer) json.member("is_indexer", true);
    json.member("bytes", arena.bytes);
    json.key("tensors").begin_array();
    for (const NamedBytes& tensor : arena.tensors) {
      json.begin_object();
      json.member("name", std::string_view(tensor.name));
      json.member("bytes", tensor.bytes);
      json.end_object();
    }
    json.end_array();
    write_optional(json, "cold_keys", arena.cold_keys);
    json.end_object();
  }
  json.end_array();
  json.key("settings").begin_object();
  for (const auto& [pointer, value] : s.settings) {
    json.text_key(pointer);
    json.value(std::string_view(value));
  }
  json.end_object();
  json.end_object();
}

}  // namespace

const Snapshot* Baseline::find(std::string_view config) const {
  const auto found = std::ranges::find(configs, config, &Snapshot::config);
  return found == configs.end() ? nullptr : &*found;
}

void Baseline::put(Snapshot snapshot) {
  const auto found = std::ranges::find(configs, snapshot.config, &Snapshot::config);
  if (found != configs.end())
    *found = std::move(snapshot);
  else
    configs.insert(std::ranges::upper_bound(configs, snapshot.config, {}, &Snapshot::config),
                   std::move(snapshot));
}

namespace {

// Entries that contradict each other would leave it open which one counts.
void check_entries(FieldContext& context, const Baseline& baseline) {
  if (baseline.schema && *baseline.schema != "moeplan.baseline/1")
    add_problem(context, *context.document.find(context.document.root(), "schema"), ErrorCode::invalid_value,
                concat("this is no baseline: its schema is ", *baseline.schema),
                "moeplan baseline write makes one");
  const JsonNode* list = context.document.find(context.document.root(), "configs");
  if (!list || list->type != JsonType::array) return;
  std::size_t index = 0;
  for (const JsonNode* node = context.document.first_child(*list); node && index < baseline.configs.size();
       node = context.document.next(*node), ++index) {
    if (baseline.find(baseline.configs[index].config) != &baseline.configs[index])
      add_problem(context, *node, ErrorCode::duplicate_key,
                  concat("a second entry of config ", baseline.configs[index].config), "keep one");
  }
}

}  // namespace

std::unique_ptr<BaselineFile> parse_baseline(std::string name, std::string text) {
  auto file = std::make_unique<BaselineFile>();
  file->name = std::move(name);
  file->text = std::move(text);
  if (auto parsed = file->document.parse(file->text, file->name); !parsed) {
    file->problems.push_back({parsed.error(), file->document.error_place()});
    return file;
  }
  FieldContext context{.document = file->document, .problems = file->problems};
  if (file->document.root().type != JsonType::object) {
    add_problem(context, file->document.root(), ErrorCode::wrong_type, "a baseline must be an object",
                "moeplan baseline write makes one");
    return file;
  }
  read_fields(context, file->document.root(), baseline_fields(), &file->baseline);
  check_entries(context, file->baseline);
  return file;
}

std::unique_ptr<BaselineFile> read_baseline(const std::string& path) {
  auto text = read_text(path);
  if (text) return parse_baseline(path, std::move(*text));
  auto file = std::make_unique<BaselineFile>();
  file->name = path;
  file->problems.push_back({text.error(), Place{file->name, 0, 0, {}, 1}});
  return file;
}

std::string write_baseline(const Baseline& baseline) {
  std::string out;
  JsonWriter json(out, JsonWriter::Style::indented);
  json.begin_object();
  json.member("schema", "moeplan.baseline/1");
  json.member("schema_version", baseline.schema_version);
  json.key("history").begin_array();
  for (const BaselineChange& change : baseline.history) {
    json.begin_object();
    json.member("date", std::string_view(change.date));
    json.member("reason", std::string_view(change.reason));
    json.end_object();
  }
  json.end_array();
  json.key("configs").begin_array();
  for (const Snapshot& snapshot : baseline.configs) write_snapshot(json, snapshot);
  json.end_array();
  json.end_object();
  return out + "\n";
}

std::string short_digest(std::string_view text) {
  // FNV-1a.
  std::uint64_t hash = 14695981039346656037u;
  for (char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  constexpr char kHex[] = "0123456789abcdef";
  std::string digits;
  for (int shift = 60; digits.size() < 7; shift -= 4) digits += kHex[(hash >> shift) & 15];
  return digits;
}

}  // namespace moeplan
