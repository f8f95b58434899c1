#include "cli/import/import.hpp"

#include <algorithm>
#include <cstdlib>
#include <span>

#include "cli/io/config.hpp"
#include "cli/io/json_writer.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// Pointers of all fields in the order of the config's tables.
void collect_pointers(std::span<const Field> fields, const std::string& prefix,
                      std::vector<std::string>& pointers) {
  for (const Field& field : fields) {
    const std::string pointer = concat(prefix, "/", field.name);
    if (field.type == FieldType::object)
      collect_pointers(field.fields, pointer, pointers);
    else
      pointers.push_back(pointer);
  }
}

const std::vector<std::string>& config_pointers() {
  static const auto kPointers = [] {
    std::vector<std::string> pointers;
    collect_pointers(config_fields(), "", pointers);
    return pointers;
  }();
  return kPointers;
}

// Environment rows stand where their map does.
std::size_t position_of(std::string_view pointer) {
  const auto& pointers = config_pointers();
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    if (pointer == pointers[i] || pointer.starts_with(pointers[i] + "/")) return i;
  }
  return pointers.size();
}

void write_fields(JsonWriter& writer, const Import& import, std::span<const Field> fields,
                  const std::string& prefix) {
  for (const Field& field : fields) {
    const std::string pointer = concat(prefix, "/", field.name);
    const std::string inside = pointer + "/";
    const bool has_members = std::ranges::any_of(
        import.rows, [&](const ImportRow& row) { return row.pointer.starts_with(inside); });
    if (field.type == FieldType::object && has_members) {
      writer.key(field.name).begin_object();
      write_fields(writer, import, field.fields, pointer);
      writer.end_object();
    } else if (field.type == FieldType::text_map && has_members) {
      writer.key(field.name).begin_object();
      for (const ImportRow& row : import.rows) {
        if (row.pointer.starts_with(inside))
          writer.key(std::string_view(row.pointer).substr(inside.size())).raw(row.json);
      }
      writer.end_object();
    } else if (const ImportRow* row = find_row(import, pointer)) {
      writer.key(field.name).raw(row->json);
    }
  }
}

// Both say how the experts are stored; the better source stands for both.
void keep_one_format(Import& import) {
  const ImportRow* source = find_row(import, "/quant/source_format");
  const ImportRow* weights = find_row(import, "/quant/weights");
  if (!source || !weights) return;
  if (source->rank == weights->rank) {
    import.fail(ErrorCode::invalid_value, Place{},
                concat("the experts are ", source->json, " (", source->from, ") and ", weights->json, " (",
                       weights->from, ")"),
                "leave one out, or give --set /quant/source_format=FORMAT");
    return;
  }
  const std::string drop = source->rank < weights->rank ? "/quant/weights" : "/quant/source_format";
  std::erase_if(import.rows, [&](const ImportRow& row) { return row.pointer == drop; });
}

}  // namespace

std::string_view name_of(RowKind kind) {
  constexpr std::string_view kNames[] = {"imported", "assumed", "measured"};
  return kNames[static_cast<int>(kind)];
}

void Import::fail(ErrorCode code, Place place, std::string message, std::string help) {
  if (problems.size() >= kMaxProblems) return;
  problems.push_back({Error{code, "", std::move(message), std::move(help)}, place});
}

std::string Import::shown(std::string_view value) const {
  for (const auto& [hidden, name] : hidden_) {
    if (value.find(hidden) != std::string_view::npos) return concat("the value of $", name);
  }
  return concat("\"", value.substr(0, 60), "\"");
}

const char* Import::environment(std::string_view name) const {
  if (std::ranges::find(allowed_names, name) == allowed_names.end()) return nullptr;
  return std::getenv(std::string(name).c_str());
}

Place place_in(std::string_view source, std::string_view text, std::size_t at) {
  at = std::min(at, text.size());
  Place place{.source = source, .line = 1, .column = 1};
  std::size_t begin = 0;
  for (std::size_t i = 0; i < at; ++i) {
    if (text[i] != '\n') continue;
    ++place.line;
    begin = i + 1;
  }
  for (std::size_t i = begin; i < at; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) ++place.column;
  }
  const std::size_t end = std::min(text.find('\n', begin), text.size());
  place.text = text.substr(begin, end - begin);
  return place;
}

Place bare_place_in(std::string_view source, std::string_view text, std::size_t at) {
  Place place = place_in(source, text, at);
  place.text = {};
  return place;
}

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Without folders: a config travels, and says the same on every machine.
std::string line_of(const Place& place) {
  return place.line > 0 ? concat(base_name(place.source), ":", place.line)
                        : std::string(base_name(place.source));
}

std::string json_of(std::string_view text) {
  std::string out;
  JsonWriter(out).value(text);
  return out;
}
std::string json_of(i64 number) { return std::to_string(number); }
std::string json_of(bool truth) { return truth ? "true" : "false"; }

const ImportRow* find_row(const Import& import, std::string_view pointer) {
  for (const ImportRow& row : import.rows) {
    if (row.pointer == pointer) return &row;
  }
  return nullptr;
}

void settle(Import& import) {
  std::stable_sort(import.rows.begin(), import.rows.end(), [](const ImportRow& a, const ImportRow& b) {
    const auto left = position_of(a.pointer), right = position_of(b.pointer);
    if (left != right) return left < right;
    if (a.pointer != b.pointer) return a.pointer < b.pointer;
    return a.rank < b.rank;
  });
  std::vector<ImportRow> kept;
  for (ImportRow& row : import.rows) {
    if (kept.empty() || kept.back().pointer != row.pointer) {
      kept.push_back(std::move(row));
      continue;
    }
    const ImportRow& winner = kept.back();
    if (winner.json == row.json) continue;
    const bool is_contradicted = winner.must_agree && row.kind == RowKind::assumed;
    if (is_contradicted || (winner.rank == row.rank && winner.rank != Rank::command_line)) {
      import.fail(
          ErrorCode::invalid_value, Place{},
          concat(row.pointer, " is ", winner.json, " in ", winner.from, ", but ", row.json, " in ", row.from),
          concat("leave one out, or say which holds: --set ", row.pointer, "=VALUE"));
    } else if (row.kind != RowKind::assumed) {
      import.note(concat(row.pointer, ": ", winner.json, " (", winner.from, ") stands over ", row.json, " (",
                         row.from, ")"));
    }
  }
  import.rows = std::move(kept);
  keep_one_format(import);
}

std::vector<Missing> missing_fields(const Import& import) {
  std::vector<Missing> missing;
  const auto need = [&](std::string_view pointer, std::string_view remedy) {
    if (!find_row(import, pointer)) missing.push_back({std::string(pointer), std::string(remedy)});
  };
  constexpr std::string_view kModel = "--hf CONFIG.JSON, or --model NAME for a shipped model";
  need("/model/hidden_size", kModel);
  need("/model/moe_intermediate_size", kModel);
  need("/model/n_routed_experts", kModel);
  need("/model/num_experts_per_tok", kModel);
  if (!find_row(import, "/quant/weights"))
    need("/quant/source_format", "--hf CONFIG.JSON of the checkpoint, or --set /quant/source_format=FORMAT");
  const ImportRow* format = find_row(import, "/quant/source_format");
  if (format && format->json == json_of(std::string_view("exl3_trellis_mcg")) &&
      !find_row(import, "/quant/tiers"))
    need("/quant/bits",
         "--hf CONFIG.JSON of the checkpoint, or --set /quant/bits=BITS (mixed widths: /quant/tiers)");
  need("/parallel/tp", "--set /parallel/tp=RANKS");
  need("/device/sm_count", "--device NAME, or --set /device/sm_count=COUNT");
  need("/deployment/dtype",
       "--hf CONFIG.JSON of the checkpoint, --dtype in the command, or --set /deployment/dtype=bfloat16");
  need("/deployment/max_num_batched_tokens",
       "--max-num-batched-tokens in the command, or --set /deployment/max_num_batched_tokens=TOKENS; the "
       "engine's "
       "own default depends on its build and device");
  return missing;
}

std::string write_config(const Import& import) {
  std::string out;
  JsonWriter writer(out, JsonWriter::Style::indented);
  writer.begin_object();
  write_fields(writer, import, config_fields(), "");
  writer.key("x-provenance").begin_object();
  for (const ImportRow& row : import.rows)
    writer.key(row.pointer)
        .value(row.kind == RowKind::imported ? row.from : concat(name_of(row.kind), ": ", row.from));
  writer.end_object().end_object();
  out += "\n";
  return out;
}

std::string provenance_table(const Import& import) {
  constexpr std::size_t kLongestValue = 28;
  std::size_t pointer_width = 5, value_width = 5;
  const auto shown = [](const ImportRow& row) {
    std::string text = printable(row.json);
    if (text.size() > kLongestValue) text = text.substr(0, kLongestValue - 3) + "...";
    return text;
  };
  for (const ImportRow& row : import.rows) {
    pointer_width = std::max(pointer_width, row.pointer.size());
    value_width = std::max(value_width, shown(row).size());
  }
  const auto padded = [](std::string text, std::size_t width) {
    text.resize(std::max(width, text.size()), ' ');
    return text + "  ";
  };
  std::string out =
      concat(padded("FIELD", pointer_width), padded("VALUE", value_width), padded("KIND", 8), "FROM\n");
  std::string_view above;
  for (const ImportRow& row : import.rows) {
    // Most of a model's fields are from one place.
    const std::string from = row.from == above ? "\"" : printable(row.from);
    above = row.from;
    out += concat(padded(row.pointer, pointer_width), padded(shown(row), value_width),
                  padded(std::string(name_of(row.kind)), 8), from, "\n");
  }
  for (const std::string& text : import.notes) out += concat("note  ", printable(text), "\n");
  return out;
}

}  // namespace moeplan
