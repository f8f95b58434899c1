// Deployment: a model on devices under an engine's settings. Plain values as the config states them; nothing
// that decides a shape has a default. docs/configuration.md lists the fields.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/core/contract.hpp"
#include "planner/core/device_profile.hpp"
#include "planner/core/dtype.hpp"
#include "planner/core/environment.hpp"
#include "planner/plan_request.hpp"

namespace moeplan {

// Field names as in a Hugging Face config.json.
struct ModelShape {
  std::optional<std::string> name;
  std::optional<std::string> source;  // where the values were read
  std::optional<i64> hidden_size;
  std::optional<i64> intermediate_size;
  std::optional<i64> moe_intermediate_size;
  std::optional<i64> shared_expert_intermediate_size;
  std::optional<i64> num_hidden_layers;
  std::optional<i64> first_k_dense_replace;
  std::optional<i64> n_routed_experts;
  std::optional<i64> n_shared_experts;
  std::optional<i64> num_experts_per_tok;
  std::optional<i64> num_attention_heads;
  std::optional<i64> num_key_value_heads;
  std::optional<i64> head_dim;
  std::optional<i64> q_lora_rank;
  std::optional<i64> kv_lora_rank;
  std::optional<i64> qk_nope_head_dim;
  std::optional<i64> qk_rope_head_dim;
  std::optional<i64> v_head_dim;
  std::optional<i64> index_topk;
  std::optional<i64> index_n_heads;
  std::optional<i64> index_head_dim;
  std::optional<i64> index_full_layers;  // layers that compute their own index
  std::optional<i64> num_nextn_predict_layers;
  std::optional<i64> vocab_size;
  std::optional<i64> max_position_embeddings;
  std::optional<bool> tie_word_embeddings;
};

struct Quantization {
  SourceFormat source_format{};
  std::optional<i64> bits;  // a weight, for Trellis checkpoints
};

struct Parallelism {
  i64 tp = 0;
  std::optional<i64> ep, dp, dcp;
};

struct DeviceSettings {
  std::optional<std::string> name;
  std::optional<std::string> source;
  std::optional<std::string> memory_note;
  i64 sm_count = 0;
  std::optional<std::string> compute_capability;
  std::optional<DeviceType> type;
  std::optional<i64> shared_memory_per_block_optin;  // bytes
  std::optional<i64> total_memory_bytes;
  std::optional<i64> memory_bandwidth_gb_s;

  DeviceProfile profile() const { return {sm_count, compute_capability, type}; }
};

enum class KvCacheDtype { bfloat16, fp8, fp8_ds_mla, nvfp4_ds_mla };
inline constexpr std::string_view kKvCacheDtypeNames[] = {"bfloat16", "fp8", "fp8_ds_mla", "nvfp4_ds_mla"};

struct EngineSettings {
  DType dtype{};  // of the activations
  i64 max_num_batched_tokens = 0;
  std::optional<i64> max_num_seqs;
  std::optional<i64> max_model_len;
  std::optional<i64> num_speculative_tokens;
  std::optional<bool> draft_is_exl3;          // the draft's routed experts are EXL3 too
  std::optional<i64> gpu_memory_utilization;  // parts per million
  std::optional<KvCacheDtype> kv_cache_dtype;
  std::optional<i64> kv_record_bytes;  // a token and layer
  Environment env;
};

struct Deployment {
  i64 schema_version = 0;
  std::optional<std::string> schema;
  std::optional<std::string> name;
  std::optional<std::string> contract_id;
  const Contract* contract = nullptr;  // the one of that id
  std::optional<ModelShape> model;
  std::optional<Quantization> quant;
  std::optional<Parallelism> parallel;
  std::optional<DeviceSettings> device;
  std::optional<EngineSettings> engine;  // "deployment" in a config
  std::vector<PlanRequest> plans;        // stated explicitly
};

}  // namespace moeplan
