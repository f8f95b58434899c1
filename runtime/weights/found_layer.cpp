#include "runtime/weights/found_layer.hpp"

#include <charconv>
#include <optional>

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// A header's texts are as long as whoever wrote it likes.
constexpr std::size_t kLongestName = 200;

// ---- Names. ----

// "model.layers.3.mlp.experts.7.gate_proj.trellis": all but its layer and its expert are texts.
struct PartName {
  std::string_view module;  // "model.layers.3.mlp.experts"
  i64 layer = 0;
  i64 expert = 0;
  std::string_view projection;
  std::string_view part;
};

// The number that `text` starts with and a point behind it, both taken off; or nothing.
std::optional<i64> take_number(std::string_view& text) {
  i64 number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || number < 0 || stop == end || *stop != '.') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()) + 1);
  return number;
}

// Behind `word`, which starts the text or follows a point; npos: it does not occur so.
std::size_t behind_word(std::string_view text, std::string_view word) {
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; ++at)
    if (at == 0 || text[at - 1] == '.') return at + word.size();
  return std::string_view::npos;
}

std::optional<PartName> part_name(std::string_view name) {
  PartName found;
  const auto layer_at = behind_word(name, "layers.");
  if (layer_at == std::string_view::npos) return std::nullopt;
  std::string_view rest = name.substr(layer_at);
  const auto layer = take_number(rest);
  const auto expert_at = layer ? behind_word(rest, "experts.") : std::string_view::npos;
  if (expert_at == std::string_view::npos) return std::nullopt;
  rest.remove_prefix(expert_at);
  found.module = name.substr(0, name.size() - rest.size() - 1);
  const auto expert = take_number(rest);
  const auto point = rest.find('.');
  if (!expert || point == std::string_view::npos) return std::nullopt;
  found.layer = *layer;
  found.expert = *expert;
  found.projection = rest.substr(0, point);
  found.part = rest.substr(point + 1);
  return found;
}

// An error of a text of a file that does not name it.
Error in_file(const std::string& path, const Error& error) {
  if (error.code == ErrorCode::unreadable) return error;
  return refused(concat(path, ": ", error.message), error.help);
}

// ---- What headers and an index name. ----

std::optional<HeaderMistake> note_tensors(std::string_view header, i64 layer, i64 data_bytes,
                                          FoundLayer& found, std::optional<std::string>& misplaced) {
  std::optional<std::string> twice;
  i64 furthest = data_bytes;
  const auto note = [&](const StatedTensor& tensor) {
    if (tensor.end > furthest) {
      furthest = tensor.end;
      misplaced = concat(shortened(tensor.name, kLongestName), " ends at byte ", tensor.end,
                         " behind the header, where the file has ", data_bytes);
    }
    const auto name = part_name(tensor.name);
    if (!name) return;
    found.layers.insert(name->layer);
    if (name->layer != layer) return;
    const bool is_new =
        found.modules[std::string(name->module)]
            .try_emplace({name->expert, std::string(name->projection), std::string(name->part)},
                         Stored{shortened(tensor.name, kLongestName),
                                found.files.size() - 1,
                                shortened(tensor.dtype, kLongestName),
                                {tensor.shape.begin(), tensor.shape.end()},
                                tensor.begin,
                                tensor.end})
            .second;
    if (!is_new && !twice) twice = concat(shortened(tensor.name, kLongestName), " is named twice");
  };
  auto mistake = visit_tensors(header, {.tensor = note, .placed = nullptr});
  if (!mistake && twice) return HeaderMistake{ErrorCode::duplicate_key, *twice, 0};
  return mistake;
}

Status add_file(const std::string& path, i64 layer, FoundLayer& found) {
  auto file = RangedFile::open(path);
  if (!file) return file.error();
  const auto header = read_header(*file);
  if (!header) return in_file(path, header.error());
  const i64 begin = data_begin(*header), data_bytes = file->bytes() - begin;
  found.files.push_back({std::make_shared<const RangedFile>(std::move(*file)), begin});
  std::optional<std::string> misplaced;
  const auto mistake = note_tensors(*header, layer, data_bytes, found, misplaced);
  if (mistake && mistake->code == ErrorCode::duplicate_key)
    return refused(concat(path, ": ", mistake->message), "is this a safetensors file?");
  if (mistake)
    return refused(concat(path, ": the header is no JSON of tensors: ", mistake->message, " (byte ",
                          mistake->at + 8, ")"),
                   "is this a safetensors file, and is it whole?");
  if (misplaced)
    return refused(concat(path, " is cut off, or its header is wrong: ", *misplaced),
                   "fetch the file anew; is its download complete?");
  return Ok{};
}

Status read_index_of(const std::string& path, i64 layer, FoundLayer& found) {
  const auto file = RangedFile::open(path);
  if (!file) return file.error();
  const auto json = read_index(*file);
  if (!json) return in_file(path, json.error());
  bool is_index = false;
  const auto mistake = visit_tensors(
      *json, {.tensor = nullptr, .placed = [&](std::string_view tensor, std::string_view shard) {
                is_index = true;
                const auto name = part_name(tensor);
                if (!name) return;
                found.layers.insert(name->layer);
                if (name->layer == layer) found.shards_of_layer[std::string(name->module)].emplace(shard);
              }});
  if (mistake)
    return refused(concat(path, ": the index is no JSON: ", mistake->message, " (byte ", mistake->at, ")"),
                   "is the file whole?");
  if (!is_index)
    return refused(concat(path, ": no weight_map in this index"),
                   "give model.safetensors.index.json, or a .safetensors file");
  return Ok{};
}

// The module that is meant where several hold a layer of that number: not that of the predicted tokens, whose
// layers some checkpoints count anew.
template <class Modules>
Result<std::string> chosen_module(const std::string& path, i64 layer, const std::set<i64>& layers,
                                  const Modules& modules) {
  std::vector<std::string> names;
  for (const auto& [name, held] : modules) {
    if (modules.size() == 1 || !name.starts_with("mtp.")) names.push_back(name);
  }
  if (names.size() == 1) return names.front();
  if (names.size() > 1)
    return refused(concat(path, ": layer ", layer,
                          " is of several modules: ", shortened(join(names, ", "), 2 * kLongestName)),
                   "give a file that holds one of them");
  if (layers.empty())
    return refused(concat(path,
                          ": it holds no routed experts, whose tensors are called "
                          "….layers.N.….experts.E.gate_proj.trellis"),
                   elsewhere(path));
  return refused(concat(path, ": it holds no experts of layer ", layer, ", but of layer",
                        layers.size() == 1 ? " " : "s ", ranges_of(layers)),
                 concat(layers.size() == 1 ? "choose it; " : "choose one of these; ", elsewhere(path)));
}

}  // namespace

Result<FoundLayer> find_layer(const std::string& path, i64 layer, std::string& module) {
  FoundLayer found;
  if (!path.ends_with(".json")) {
    if (const Status added = add_file(path, layer, found); !added) return added.error();
    auto chosen = chosen_module(path, layer, found.layers, found.modules);
    if (!chosen) return chosen.error();
    module = std::move(*chosen);
    return found;
  }
  if (const Status read = read_index_of(path, layer, found); !read) return read.error();
  auto chosen = chosen_module(path, layer, found.layers, found.shards_of_layer);
  if (!chosen) return chosen.error();
  module = std::move(*chosen);
  for (const std::string& shard : found.shards_of_layer[module]) {
    const auto file = shard_path(path, shard);
    if (!file)
      return refused(concat(path, ": the shard \"", shortened(shard, kLongestName), "\" of layer ", layer,
                            " is no plain file name"),
                     "shards lie beside their index");
    if (const Status added = add_file(*file, layer, found); !added) {
      Error error = added.error();
      if (error.code == ErrorCode::unreadable)
        error.help = concat(path, " names it for layer ", layer, ": shards lie beside their index");
      return error;
    }
  }
  return found;
}

Error refused(std::string message, std::string_view help) {
  return {ErrorCode::weights_refused, "", std::move(message), std::string(help)};
}

std::string_view elsewhere(const std::string& path) {
  return path.ends_with(".json") ? "the index names no more of it: is it whole, and this checkpoint's?"
                                 : "a sharded layer may lie in another file: give "
                                   "model.safetensors.index.json, which names them all";
}

std::string ranges_of(const std::set<i64>& numbers) {
  std::string text;
  for (auto at = numbers.begin(); at != numbers.end();) {
    const i64 first = *at;
    i64 last = first;
    while (++at != numbers.end() && *at == last + 1) last = *at;
    text += concat(text.empty() ? "" : ", ", first);
    if (last > first) text += concat("..", last);
  }
  return shortened(text, kLongestName);
}

std::string text_of_shape(std::span<const i64> shape) {
  return shortened(concat("[", join(shape, ", "), "]"), kLongestName);
}

}  // namespace moeplan
