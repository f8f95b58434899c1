// Safetensors headers: expert counts, shapes and formats from tensor names. Never the weights.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "cli/import/sources.hpp"
#include "cli/io/json_document.hpp"
#include "planner/core/text.hpp"
#include "runtime/weights/safetensors.hpp"

namespace moeplan {
namespace {

// Of the first dimensions, zeros behind them; bounded, so that products of two do not overflow.
using Shape = std::array<i64, 4>;

Shape bounded(std::span<const i64> stated) {
  Shape shape{};
  for (std::size_t i = 0; i < std::min(stated.size(), shape.size()); ++i)
    shape[i] = std::clamp<i64>(stated[i], 0, i64{1} << 32);
  return shape;
}

// What the names and shapes of expert tensors add up to.
struct Experts {
  std::map<i64, i64> last_expert;           // of each layer
  std::map<i64, std::map<i64, i64>> tiers;  // layer, bits, experts
  std::set<std::string, std::less<>> suffixes;
  i64 hidden = 0, intermediate = 0;
  bool is_trellis = false;
  bool has_shapes = false;
  i64 fused = 0;  // experts of a tensor that holds all
  std::string dtype;
  std::string shard;  // of an expert's first tensor, in an index
};

// The number behind `word` in `name`, or -1; `rest` is what follows it.
i64 number_behind(std::string_view name, std::string_view word, std::string_view* rest) {
  const auto at = name.find(word);
  if (at == std::string_view::npos) return -1;
  std::size_t i = at + word.size();
  i64 number = 0;
  const std::size_t begin = i;
  while (i < name.size() && i - begin < 7 && name[i] >= '0' && name[i] <= '9')
    number = number * 10 + (name[i++] - '0');
  if (i == begin) return -1;
  *rest = name.substr(std::min(i + 1, name.size()));
  return number;
}

void take_shape(Experts& experts, std::string_view projection, std::string_view suffix,
                std::string_view dtype, const Shape& shape, i64 layer) {
  const bool is_gate = projection == "gate_proj" || projection == "w1";
  if (!is_gate || shape[0] <= 0 || shape[1] <= 0) return;
  i64 hidden = 0, intermediate = 0;
  if (suffix == "trellis" && shape[2] > 0) {
    // int16 [K/16, N/16, 16*bits]
    experts.is_trellis = true;
    hidden = shape[0] * 16;
    intermediate = shape[1] * 16;
    ++experts.tiers[layer][shape[2] / 16];
  } else if (suffix == "weight" || suffix == "weight_packed") {
    const i64 packed = dtype == "U8" ? 2 : dtype == "I32" ? 8 : 1;
    intermediate = shape[0];
    hidden = shape[1] * packed;
    if (experts.dtype.empty()) experts.dtype = dtype;
  }
  if (hidden == 0 || experts.has_shapes) return;
  experts.hidden = hidden;
  experts.intermediate = intermediate;
  experts.has_shapes = true;
}

void take_tensor(Experts& experts, std::string_view name, std::string_view dtype, const Shape& shape) {
  std::string_view rest;
  const i64 layer = number_behind(name, "layers.", &rest);
  if (layer < 0) return;
  std::string_view tail;
  const i64 expert = number_behind(rest, "experts.", &tail);
  if (expert < 0) {
    const auto at = rest.find("experts.gate_up_proj");
    if (at == std::string_view::npos || shape[0] <= 0) return;
    experts.last_expert[layer] = shape[0] - 1;
    if (rest.ends_with("gate_up_proj_blocks") && shape[3] > 0) {
      experts.suffixes.insert("blocks");
      experts.intermediate = shape[1] / 2;
      experts.hidden = std::min<i64>(shape[2], 1 << 20) * std::min<i64>(shape[3], 1 << 20) * 2;
      experts.has_shapes = true;
    }
    return;
  }
  auto& last = experts.last_expert.try_emplace(layer, expert).first->second;
  last = std::max(last, expert);
  const auto dot = tail.find('.');
  if (dot == std::string_view::npos) return;
  const auto suffix = tail.substr(tail.rfind('.') + 1);
  if (experts.suffixes.size() < 64 && experts.suffixes.find(suffix) == experts.suffixes.end())
    experts.suffixes.emplace(suffix);
  take_shape(experts, tail.substr(0, dot), suffix, dtype, shape, layer);
}

void add_format(Import& import, const Experts& experts, std::string_view name) {
  const auto has = [&](std::string_view suffix) {
    return experts.suffixes.find(suffix) != experts.suffixes.end();
  };
  const auto add = [&](std::string_view pointer, std::string_view value, std::string_view what) {
    import.add({std::string(pointer), json_of(value), concat(base_name(name), " tensors *.", what),
                RowKind::imported, Rank::checkpoint});
  };
  if (has("trellis")) return add("/quant/source_format", "exl3_trellis_mcg", "trellis");
  if (has("weight_scale_2")) return add("/quant/source_format", "modelopt_nvfp4", "weight_scale_2");
  if (has("weight_packed") && has("weight_global_scale"))
    return add("/quant/weights", "nvfp4", "weight_global_scale");
  if (has("weight_packed")) return add("/quant/source_format", "compressed_tensors", "weight_packed");
  if (has("blocks")) return add("/quant/source_format", "fp4_e8m0_k32", "gate_up_proj_blocks");
  if (has("weight_scale_inv") || experts.dtype.starts_with("F8"))
    return add("/quant/weights", "fp8", "weight");
  if (experts.dtype == "BF16") return add("/quant/weights", "bfloat16", "weight");
}

void add_rows(Import& import, const Experts& experts, std::string_view name, bool is_whole) {
  if (experts.last_expert.empty())
    return import.fail(
        ErrorCode::unsupported_deployment, Place{.source = name}, "no expert tensors in this header",
        is_whole ? "moeplan plans mixture-of-experts models" : "give another shard, or the index");
  const auto add = [&](std::string_view pointer, i64 value, std::string_view what,
                       Rank rank = Rank::checkpoint) {
    import.add(
        {std::string(pointer), json_of(value), concat(base_name(name), " ", what), RowKind::imported, rank});
  };
  i64 count = 0;
  for (const auto& [layer, last] : experts.last_expert) count = std::max(count, last + 1);
  // A shard may hold some of a layer's experts.
  if (is_whole) add("/model/n_routed_experts", count, "tensor names");
  if (experts.has_shapes) {
    add("/model/hidden_size", experts.hidden, "tensor shapes");
    // Trellis checkpoints may be sliced by rank.
    add("/model/moe_intermediate_size", experts.intermediate, "tensor shapes",
        experts.is_trellis ? Rank::assumed : Rank::checkpoint);
  }
  add_format(import, experts, name);
  const std::map<i64, i64>* tiers = nullptr;
  i64 most = 0;
  for (const auto& [layer, by_bits] : experts.tiers) {
    i64 sum = 0;
    for (const auto& [bits, number] : by_bits) sum += number;
    if (sum <= most) continue;
    most = sum;
    tiers = &by_bits;
  }
  if (!tiers) return;
  if (tiers->size() == 1) return add("/quant/bits", tiers->begin()->first, "shapes of *.trellis");
  std::string json;
  for (const auto& [bits, number] : *tiers)
    json += concat(json.empty() ? "" : ", ", "{\"bits\": ", bits, ", \"experts\": ", number, "}");
  import.add({"/quant/tiers", concat("[", json, "]"), concat(base_name(name), " shapes of *.trellis"),
              RowKind::imported, Rank::checkpoint});
}

// Notes what a header or an index names. False after a problem.
bool read_json(Import& import, std::string_view name, std::string_view json, Experts& experts,
               bool* is_index) {
  *is_index = false;
  const auto mistake =
      visit_tensors(json, {.tensor =
                               [&](const StatedTensor& tensor) {
                                 take_tensor(experts, tensor.name, tensor.dtype, bounded(tensor.shape));
                               },
                           .placed =
                               [&](std::string_view tensor, std::string_view file) {
                                 *is_index = true;
                                 const std::size_t layers = experts.last_expert.size();
                                 take_tensor(experts, tensor, "", {});
                                 if (experts.last_expert.size() > layers && experts.shard.empty())
                                   experts.shard = file;
                               }});
  if (!mistake) return true;
  // The header is one line behind a length; its bytes are what can be named. They go before the problem does.
  Place place = place_in(name, json, mistake->at);
  constexpr std::size_t kLongestShown = 4096;
  const bool is_shown = place.text.size() <= kLongestShown;
  place.text = is_shown ? import.keep(std::string(place.text)) : std::string_view{};
  import.fail(mistake->code, place, concat("the header is no JSON of tensors: ", mistake->message),
              "is the file whole?");
  return false;
}

// The JSON of a .safetensors file, or of an index; none after a problem.
std::optional<std::string> json_of_file(Import& import, const std::string& path, bool is_index) {
  const auto file = RangedFile::open(path);
  const auto json = !file      ? Result<std::string>(file.error())
                    : is_index ? read_index(*file)
                               : read_header(*file);
  if (json) return *json;
  const Error& error = json.error();
  import.fail(error.code, Place{.source = import.keep(path)}, error.message, error.help);
  return std::nullopt;
}

}  // namespace

void import_safetensors_header(Import& import, std::string_view name, std::string_view json, bool is_whole) {
  Experts experts;
  bool is_index = false;
  if (read_json(import, name, json, experts, &is_index))
    add_rows(import, experts, name, is_whole || is_index);
}

void import_safetensors(Import& import, const std::string& path) {
  const std::string_view name = import.keep(path);
  const bool is_json = path.ends_with(".json");
  const auto json = json_of_file(import, path, is_json);
  if (!json) return;
  if (!is_json) return import_safetensors_header(import, name, *json, path.find("-of-") == std::string::npos);
  Experts experts;
  bool is_index = false;
  if (!read_json(import, name, *json, experts, &is_index)) return;
  if (!is_index)
    return import.fail(ErrorCode::missing_field, Place{.source = name}, "no weight_map in this index",
                       "give model.safetensors.index.json, or a .safetensors file");
  // Shapes stand in the shards.
  const auto file = shard_path(path, experts.shard);
  if (file && ::access(file->c_str(), R_OK) == 0) {
    const auto header = json_of_file(import, *file, false);
    if (!header || !read_json(import, import.keep(*file), *header, experts, &is_index)) return;
  } else {
    import.note(concat(name, ": its shards are not beside it, so no shapes were read"));
  }
  add_rows(import, experts, name, true);
}

}  // namespace moeplan
