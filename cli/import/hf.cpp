// Hugging Face config.json: shape and quantisation of a checkpoint.
#include <sys/stat.h>

#include <algorithm>
#include <initializer_list>

#include "cli/import/engine_arguments.hpp"
#include "cli/import/sources.hpp"
#include "cli/io/json_document.hpp"
#include "cli/io/text_file.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr std::string_view kSupported =
    "exl3 (hybrid_tr3_tail or bits), modelopt NVFP4, mxfp4, compressed-tensors pack-quantized, fp8 and "
    "unquantised checkpoints can be imported";

// Our field, then how checkpoints spell it.
struct Spelling {
  std::string_view field;
  std::initializer_list<std::string_view> names;
};

const Spelling kSpellings[] = {
    {"hidden_size", {"hidden_size", "n_embd", "d_model"}},
    {"num_hidden_layers", {"num_hidden_layers", "n_layer"}},
    {"first_k_dense_replace", {"first_k_dense_replace"}},
    {"n_routed_experts", {"n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts"}},
    {"n_shared_experts", {"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"}},
    {"num_experts_per_tok",
     {"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk"}},
    {"shared_expert_intermediate_size", {"shared_expert_intermediate_size", "shared_intermediate_size"}},
    {"num_attention_heads", {"num_attention_heads", "n_head"}},
    {"num_key_value_heads", {"num_key_value_heads"}},
    {"head_dim", {"head_dim"}},
    {"q_lora_rank", {"q_lora_rank"}},
    {"kv_lora_rank", {"kv_lora_rank"}},
    {"qk_nope_head_dim", {"qk_nope_head_dim"}},
    {"qk_rope_head_dim", {"qk_rope_head_dim"}},
    {"v_head_dim", {"v_head_dim"}},
    {"index_topk", {"index_topk"}},
    {"index_n_heads", {"index_n_heads"}},
    {"index_head_dim", {"index_head_dim"}},
    {"num_nextn_predict_layers", {"num_nextn_predict_layers", "num_mtp_modules"}},
    {"vocab_size", {"vocab_size"}},
    {"max_position_embeddings", {"max_position_embeddings"}},
};

// Families whose intermediate_size is the experts' own.
constexpr std::string_view kExpertIntermediate[] = {"mixtral",     "gpt_oss", "minimax_m2", "minimax",
                                                    "llama4_text", "llama4",  "phimoe",     "grok-1",
                                                    "dbrx",        "jamba"};

class HfReader {
 public:
  HfReader(Import& import, const JsonDocument& document, std::string_view name)
      : import_(import), document_(document), name_(name), root_(document.root()), text_(document.root()) {
    if (const JsonNode* nested = document.find(root_, "text_config");
        nested && nested->type == JsonType::object)
      text_ = *nested;
  }

  void read() {
    for (const Spelling& row : kSpellings) read_spelled(row);
    if (!find_row(import_, "/model/n_routed_experts") && !saw_experts_) return refuse_dense();
    read_intermediate_sizes();
    read_indexer();
    if (const JsonNode* tie = find("tie_word_embeddings"); tie && tie->type == JsonType::boolean)
      add("/model/tie_word_embeddings", json_of(tie->boolean), *tie);
    read_dtype();
    read_quantization();
  }

 private:
  // In text_config, else at the top.
  const JsonNode* find(std::string_view key) const {
    const JsonNode* node = document_.find(text_, key);
    if (!node || node->type == JsonType::null) node = document_.find(root_, key);
    return node && node->type != JsonType::null ? node : nullptr;
  }

  std::string from(const JsonNode& node) const {
    return concat(line_of(document_.place(node)), " ", document_.key(node));
  }
  void add(std::string_view pointer, std::string json, const JsonNode& node,
           RowKind kind = RowKind::imported) {
    import_.add({std::string(pointer), std::move(json), from(node), kind,
                 kind == RowKind::assumed ? Rank::assumed : Rank::checkpoint});
  }
  void fail(const JsonNode& node, ErrorCode code, std::string message, std::string help) {
    import_.fail(code, document_.place(node), std::move(message), std::move(help));
    import_.problems.back().error.pointer = document_.pointer(node);
  }

  void read_spelled(const Spelling& row) {
    const JsonNode* first = nullptr;
    for (std::string_view spelling : row.names) {
      const JsonNode* node = find(spelling);
      if (!node) continue;
      if (node->type != JsonType::integer || node->integer < 0) {
        fail(*node, ErrorCode::wrong_type,
             concat(spelling, " must be a whole number, got ", document_.raw(*node).substr(0, 60)),
             "is this the checkpoint's config.json?");
        saw_experts_ = saw_experts_ || row.field == "n_routed_experts";
        return;
      }
      if (first && first->integer != node->integer) {
        fail(*node, ErrorCode::invalid_value,
             concat(document_.key(*first), " is ", first->integer, ", but ", spelling, " is ", node->integer),
             "they should be equal");
        return;
      }
      if (!first) first = node;
    }
    // One expert is a dense layer by another name.
    if (!first || (row.field == "n_routed_experts" && first->integer < 2)) return;
    if (first->integer == 0 && row.field != "first_k_dense_replace" && row.field != "n_shared_experts")
      return;
    saw_experts_ = saw_experts_ || row.field == "n_routed_experts";
    add(concat("/model/", row.field), json_of(first->integer), *first);
  }

  void refuse_dense() {
    fail(root_, ErrorCode::unsupported_deployment,
         "a dense model: no num_experts, num_local_experts or n_routed_experts",
         "moeplan plans mixture-of-experts models");
  }

  void read_intermediate_sizes() {
    const JsonNode* type = document_.find(text_, "model_type");
    if (!type) type = find("model_type");
    const std::string_view family = type && type->type == JsonType::string ? document_.text(*type) : "";
    const bool is_expert = std::ranges::find(kExpertIntermediate, family) != std::end(kExpertIntermediate);
    const JsonNode* expert = find("moe_intermediate_size");
    const JsonNode* dense = find("intermediate_size");
    if (!expert && is_expert) expert = std::exchange(dense, find("intermediate_size_mlp"));
    if (expert && expert->type == JsonType::integer)
      add("/model/moe_intermediate_size", json_of(expert->integer), *expert);
    if (dense && dense->type == JsonType::integer)
      add("/model/intermediate_size", json_of(dense->integer), *dense);
    if (!expert && dense)
      fail(*dense, ErrorCode::missing_field,
           concat("moe_intermediate_size is missing, and intermediate_size of a ",
                  family.empty() ? "model without model_type" : family, " may be the dense layers'"),
           "add moe_intermediate_size: of one routed expert, over all ranks");
  }

  // Layers that compute their own index: "full" among the types, F of the pattern.
  void read_indexer() {
    for (std::string_view key : {"indexer_types", "index_topk_pattern"}) {
      const JsonNode* node = find(key);
      if (!node) continue;
      i64 full = 0;
      if (node->type == JsonType::string) {
        full = std::ranges::count(document_.text(*node), 'F');
      } else if (node->type == JsonType::array) {
        for (const JsonNode* item = document_.first_child(*node); item; item = document_.next(*item)) {
          const std::string_view word = document_.text(*item);
          if (word != "full" && word != "shared" && word != "F" && word != "S")
            return fail(*item, ErrorCode::unknown_value,
                        concat(key, " holds ", document_.raw(*item).substr(0, 40)),
                        "full and shared are known");
          full += word == "full" || word == "F" ? 1 : 0;
        }
      } else {
        return fail(*node, ErrorCode::wrong_type, concat(key, " must be a list or a text"), "");
      }
      return add("/model/index_full_layers", json_of(full), *node);
    }
  }

  // What the engine's dtype "auto" becomes.
  void read_dtype() {
    for (std::string_view key : {"torch_dtype", "dtype"}) {
      const JsonNode* node = find(key);
      if (!node || node->type != JsonType::string) continue;
      const std::string_view dtype = document_.text(*node);
      if (dtype == "bfloat16" || dtype == "float16") return add("/deployment/dtype", json_of(dtype), *node);
      return import_.note(concat(from(*node), " ", dtype, " is no type of activations: left out"));
    }
  }

  void read_quantization() {
    const JsonNode* quant = document_.find(root_, "quantization_config");
    if (!quant || quant->type == JsonType::null) quant = find("quantization_config");
    const JsonNode* tail =
        quant && quant->type == JsonType::object ? document_.find(*quant, "hybrid_tr3_tail") : nullptr;
    if (!tail) tail = document_.find(root_, "hybrid_tr3_tail");
    if (tail) return read_trellis_tail(*tail);
    if (!quant) {
      const JsonNode* dtype = find("torch_dtype");
      if (!dtype) dtype = find("dtype");
      if (dtype && document_.text(*dtype) == "bfloat16")
        add("/quant/weights", json_of(std::string_view("bfloat16")), *dtype);
      return;
    }
    if (quant->type != JsonType::object)
      return fail(*quant, ErrorCode::wrong_type, "quantization_config must be an object", "");
    const JsonNode* method = document_.find(*quant, "quant_method");
    if (!method) method = document_.find(*quant, "quant_algo");
    if (!method || method->type != JsonType::string)
      return fail(*quant, ErrorCode::missing_field, "quantization_config names no quant_method",
                  std::string(kSupported));
    read_method(*quant, *method);
  }

  void read_method(const JsonNode& quant, const JsonNode& method) {
    const std::string_view name = document_.text(method);
    const auto source = [&](std::string_view format) {
      add("/quant/source_format", json_of(format), method);
    };
    const JsonNode* algorithm = document_.find(quant, "quant_algo");
    const bool is_nvfp4 = name == "modelopt_fp4" || name == "NVFP4" ||
                          (name == "modelopt" && algorithm && document_.text(*algorithm) == "NVFP4");
    if (is_nvfp4) return source("modelopt_nvfp4");
    if (name == "mxfp4") return source("fp4_e8m0_k32");
    if (name == "fp8" || name == "FP8")
      return add("/quant/weights", json_of(std::string_view("fp8")), method);
    if (name == "compressed-tensors") {
      const JsonNode* format = document_.find(quant, "format");
      const std::string_view packing = format ? document_.text(*format) : "";
      if (packing == "pack-quantized") return source("compressed_tensors");
      if (packing == "float-quantized")
        return add("/quant/weights", json_of(std::string_view("fp8")), *format);
      if (packing == "nvfp4-pack-quantized")
        return add("/quant/weights", json_of(std::string_view("nvfp4")), *format);
    }
    if (name == "exl3") {
      source("exl3_trellis_mcg");
      if (const JsonNode* bits = document_.find(quant, "bits"); bits && bits->type == JsonType::integer)
        add("/quant/bits", json_of(bits->integer), *bits);
      else if (bits)
        import_.note(concat(from(*bits), " ", document_.raw(*bits).substr(0, 20),
                            " is no whole number: experts of several widths; state /quant/tiers"));
      return;
    }
    fail(method, ErrorCode::unsupported_source_format, concat("quantisation ", name, " is not supported"),
         std::string(kSupported));
  }

  void read_trellis_tail(const JsonNode& tail) {
    const auto text_of = [&](std::string_view key) -> std::string_view {
      const JsonNode* node = document_.find(tail, key);
      return node && node->type == JsonType::string ? document_.text(*node) : "";
    };
    const JsonNode* format = document_.find(tail, "format");
    if (!format || document_.text(*format) != "exl3-trellis")
      return fail(format ? *format : tail, ErrorCode::unsupported_source_format,
                  "hybrid_tr3_tail.format must be exl3-trellis", std::string(kSupported));
    if (text_of("codebook") != "mcg")
      return fail(tail, ErrorCode::trellis_codebook,
                  concat("hybrid_tr3_tail.codebook must be mcg, got \"", text_of("codebook"), "\""),
                  "the EXL3 integration reads no other");
    add("/quant/source_format", json_of(std::string_view("exl3_trellis_mcg")), *format);
    if (const JsonNode* bits = document_.find(tail, "bits"); bits && bits->type == JsonType::integer)
      add("/quant/bits", json_of(bits->integer), *bits);
    if (const JsonNode* tp = document_.find(tail, "tp"); tp && tp->type == JsonType::integer)
      add("/quant/checkpoint_tp", json_of(tp->integer), *tp);
    // Equal ranks must agree: this is the check that the tail fits the model.
    if (const JsonNode* experts = document_.find(tail, "experts_per_layer");
        experts && experts->type == JsonType::integer)
      add("/model/n_routed_experts", json_of(experts->integer), *experts);
    const JsonNode* layers = document_.find(tail, "moe_layers");
    const JsonNode* first =
        layers && layers->type == JsonType::array ? document_.first_child(*layers) : nullptr;
    if (first && first->type == JsonType::integer && !find("first_k_dense_replace"))
      add("/model/first_k_dense_replace", json_of(first->integer), *layers);
  }

  Import& import_;
  const JsonDocument& document_;
  std::string_view name_;
  const JsonNode& root_;
  JsonNode text_;
  bool saw_experts_ = false;
};

bool is_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

}  // namespace

std::string_view read_source(Import& import, const std::string& path, bool* fine) {
  auto text = read_text(path);
  *fine = static_cast<bool>(text);
  if (!text) {
    import.problems.push_back({text.error(), Place {
                                 import.keep(path == "-" ? "stdin" : path),
                                 0,
                                 0,
                                 {},
                                 1
                               }});
    return {};
  }
  return import.keep(std::move(*text));
}

void import_hf_text(Import& import, std::string_view name, std::string_view text) {
  if (text.starts_with("GGUF")) {
    import.fail(ErrorCode::unsupported_source_format, Place{.source = name},
                "a GGUF file: its quantisation is not modelled",
                concat("give the config.json of a Hugging Face checkpoint; ", kSupported));
    return;
  }
  JsonDocument document;
  if (auto parsed = document.parse(text, name); !parsed) {
    import.problems.push_back({parsed.error(), document.error_place()});
    return;
  }
  if (document.root().type != JsonType::object) {
    import.fail(ErrorCode::wrong_type, document.place(document.root()), "a config.json must be an object",
                "");
    return;
  }
  HfReader(import, document, name).read();
}

void import_hf(Import& import, const std::string& path) {
  std::string file = path;
  if (is_folder(path)) file = concat(path, path.ends_with('/') ? "" : "/", "config.json");
  if (file.ends_with(".gguf")) return import_hf_text(import, import.keep(file), "GGUF");
  bool fine = false;
  const std::string_view text = read_source(import, file, &fine);
  if (fine) import_hf_text(import, import.keep(file == "-" ? "stdin" : file), text);
}

}  // namespace moeplan
