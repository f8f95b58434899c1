#include "cli/import/shipped.hpp"

#include <algorithm>

#include "cli/io/config.hpp"
#include "cli/io/text_file.hpp"
#include "planner/core/did_you_mean.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// Names of models that share a shipped model's geometry. `same_indexer`: also which layers index themselves.
struct Alias {
  std::string_view words;
  std::string_view stem;
  bool same_indexer = true;
};
constexpr Alias kAliases[] = {
    {"glm-5.2", "glm-5.2"},
    {"glm-5.3", "glm-5.2"},
    {"glm-5.1", "glm-5.2", false},
    {"glm-5", "glm-5.2", false},
    {"glm-4.7", "glm-4.7"},
    {"glm-4.6", "glm-4.7"},
    {"glm-4.5-air", "glm-4.5-air"},
    {"deepseek-v3", "deepseek-v3"},
    {"deepseek-v3.1", "deepseek-v3"},
    {"deepseek-r1", "deepseek-v3"},
    {"deepseek-v3.2", "deepseek-v3.2"},
    {"deepseek-v2", "deepseek-v2"},
    {"deepseek-v4-flash", "deepseek-v4-flash"},
    {"qwen3-235b-a22b", "qwen3-235b-a22b"},
    {"qwen3-30b-a3b", "qwen3-30b-a3b"},
    {"qwen3-next-80b-a3b", "qwen3-next-80b-a3b"},
    {"kimi-k2", "kimi-k2"},
    {"minimax-m2", "minimax-m2"},
    {"minimax-m2.1", "minimax-m2"},
    {"minimax-m2.5", "minimax-m2"},
    {"gpt-oss-20b", "gpt-oss-20b"},
    {"gpt-oss-120b", "gpt-oss-120b"},
    {"mixtral-8x7b", "mixtral-8x7b"},
    {"mixtral-8x22b", "mixtral-8x22b"},
    {"llama-4-maverick", "llama-4-maverick"},
};

// Words behind a model's name that leave its geometry alone: formats, finetunes, sizes.
constexpr std::string_view kNoise[] = {
    "exl3",     "exl2",     "tr3",  "nvfp4", "fp8",   "fp4",     "mxfp4",    "bf16",      "fp16",
    "awq",      "gptq",     "int4", "int8",  "w4a16", "w4a8",    "w8a8",     "mtp",       "instruct",
    "thinking", "chat",     "base", "it",    "hf",    "fp",      "v0.1",     "v0.3",      "speciale",
    "exp",      "terminus", "zero", "128e",  "17b",   "dynamic", "modelopt", "quantized", "class",
    "671b",     "753b",     "236b", "0324",  "0528",  "0711",    "0905",     "2507",      "mcg"};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::vector<std::string> words_of(std::string_view name) {
  std::vector<std::string> words(1);
  for (char c : lower(name)) {
    if (c == '-' || c == '_' || c == ' ' || c == ':' || c == '@')
      words.emplace_back();
    else
      words.back() += c;
  }
  std::erase(words, "");
  return words;
}

std::string_view last_part(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return base_name(path);
}

bool is_noise(std::string_view word) {
  if (std::ranges::find(kNoise, word) != std::end(kNoise)) return true;
  // "3.25bpw", "4bit"
  const auto digits = word.find_first_not_of("0123456789.");
  return digits != 0 && digits != std::string_view::npos &&
         (word.substr(digits) == "bpw" || word.substr(digits) == "bit");
}

const Alias* alias_of(std::string_view name) {
  const auto words = words_of(last_part(name));
  const Alias* best = nullptr;
  std::size_t best_size = 0;
  for (const Alias& alias : kAliases) {
    const auto wanted = words_of(alias.words);
    const auto at = std::search(words.begin(), words.end(), wanted.begin(), wanted.end());
    if (at == words.end() || wanted.size() <= best_size) continue;
    if (!std::all_of(at + static_cast<std::ptrdiff_t>(wanted.size()), words.end(), is_noise)) continue;
    best = &alias;
    best_size = wanted.size();
  }
  return best;
}

const ShippedFile* find_shipped(std::span<const ShippedFile> files, std::string_view stem) {
  const auto at = std::ranges::find(files, stem, &ShippedFile::stem);
  return at == files.end() ? nullptr : &*at;
}

struct SectionRows {
  std::string_view section;  // "/model"
  Rank rank;
  RowKind kind;
  std::string from;
  std::string_view leave_out = {};
};

// The members of a model or device file that its table knows, checked by the table.
template <class Section>
bool add_section(Import& import, std::string_view name, std::string_view text, std::span<const Field> fields,
                 const SectionRows& rows) {
  JsonDocument document;
  if (auto parsed = document.parse(text, name); !parsed) {
    import.problems.push_back({parsed.error(), document.error_place()});
    return false;
  }
  const std::size_t before = import.problems.size();
  FieldContext context{.document = document, .problems = import.problems};
  Section section;
  if (document.root().type == JsonType::object) read_fields(context, document.root(), fields, &section);
  if (import.problems.size() > before) return false;
  for (const JsonNode* child = document.first_child(document.root()); child; child = document.next(*child)) {
    const std::string_view key = document.key(*child);
    if (child->type == JsonType::null || key == "source" || key == "memory_note" || key.starts_with("x-") ||
        key == rows.leave_out)
      continue;
    import.add(
        {concat(rows.section, "/", key), std::string(document.raw(*child)), rows.from, rows.kind, rows.rank});
  }
  return true;
}

template <class Section>
bool add_file_or_shipped(Import& import, const std::string& name, std::span<const ShippedFile> files,
                         std::span<const Field> fields, std::string_view flag, SectionRows rows) {
  std::string stem = lower(name);
  std::ranges::replace(stem, ' ', '-');
  if (const ShippedFile* file = find_shipped(files, stem)) {
    return add_section<Section>(import, concat("shipped ", file->stem), file->text, fields, rows);
  }
  if (name.ends_with(".json")) {
    auto text = read_text(name);
    if (!text) {
      import.problems.push_back({text.error(), Place { import.keep(name), 0, 0, {}, 1 }});
      return false;
    }
    rows.from = concat(base_name(name), " (", flag, ")");
    return add_section<Section>(import, import.keep(name), import.keep(std::move(*text)), fields, rows);
  }
  std::vector<std::string_view> stems;
  for (const ShippedFile& file : files) stems.push_back(file.stem);
  const auto near = did_you_mean(stem, stems);
  import.fail(ErrorCode::unknown_value, Place{}, concat(flag, ": no shipped file is named ", name),
              near ? concat("did you mean ", *near, "?")
                   : concat("give a .json file, or one of ", join(stems, ", ")));
  return false;
}

}  // namespace

std::vector<std::pair<std::string_view, DeviceSettings>> shipped_device_settings() {
  std::vector<std::pair<std::string_view, DeviceSettings>> devices;
  for (const ShippedFile& file : shipped_devices()) {
    JsonDocument document;
    std::vector<Problem> problems;
    DeviceSettings settings;
    FieldContext context{.document = document, .problems = problems};
    MOEPLAN_CHECK(document.parse(file.text, file.stem), "a shipped device that is not JSON");
    read_fields(context, document.root(), device_fields(), &settings);
    MOEPLAN_CHECK(problems.empty(), "a shipped device that does not read");
    devices.emplace_back(file.stem, std::move(settings));
  }
  return devices;
}

const ShippedFile* shipped_model_of(std::string_view name) {
  const Alias* alias = alias_of(name);
  return alias ? find_shipped(shipped_models(), alias->stem) : nullptr;
}

bool add_model(Import& import, const std::string& name, Rank rank) {
  const Alias* alias = name.ends_with(".json") ? nullptr : alias_of(name);
  return add_file_or_shipped<ModelShape>(
      import, alias ? std::string(alias->stem) : name, shipped_models(), model_fields(), "--model",
      {.section = "/model",
       .rank = rank,
       .kind = RowKind::imported,
       .from = concat("shipped ", alias ? alias->stem : name, " (--model)"),
       .leave_out = alias && !alias->same_indexer ? "index_full_layers" : ""});
}

bool add_device(Import& import, const std::string& name, Rank rank, RowKind kind, std::string from) {
  return add_file_or_shipped<DeviceSettings>(
      import, name, shipped_devices(), device_fields(), "--device",
      {.section = "/device", .rank = rank, .kind = kind, .from = std::move(from)});
}

void assume_model(Import& import) {
  if (import.model_name.empty()) return;
  const Alias* alias = alias_of(import.model_name);
  if (!alias) {
    import.note(concat(import.shown(import.model_name), " (", import.model_from,
                       ") is no shipped model's name: its shape is not assumed"));
    return;
  }
  const ShippedFile* file = find_shipped(shipped_models(), alias->stem);
  MOEPLAN_CHECK(file, "an alias of a model that is not shipped");
  add_section<ModelShape>(import, "shipped", file->text, model_fields(),
                          {.section = "/model",
                           .rank = Rank::assumed,
                           .kind = RowKind::assumed,
                           .from = concat("from name \"", last_part(import.model_name), "\" (",
                                          import.model_from, "): shipped ", file->stem),
                           .leave_out = alias->same_indexer ? "" : "index_full_layers"});
}

}  // namespace moeplan
