// Small helpers of the tests.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "planner/moe/plan_moe.hpp"

namespace moeplan::test {

using Json = nlohmann::json;

// A file of the source tree.
inline std::string read_source(const std::string& path) {
  std::ifstream file(std::string(MOEPLAN_SOURCE_DIR) + "/" + path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The objects of a JSON Lines file of the source tree.
inline std::vector<Json> read_lines(const std::string& path) {
  std::vector<Json> lines;
  std::istringstream text(read_source(path));
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  return lines;
}

// The contracts of engines, which plan every kind of weights.
constexpr const char* kContractIds[] = {"sparkinfer-de04125", "sparkinfer-c2f135c", "b12x-36bce2c"};
// The one of moeplan's own executor.
constexpr const char* kLeanContractId = "moeplan-lean-1";

// A W4A16 request on the layout the reports call packed; change what the case is about.
inline MoeRequest packed_request(const char* contract, i64 experts, i64 hidden, i64 intermediate, i64 top_k,
                                 i64 tokens, i64 sms) {
  MoeRequest request;
  request.contract = find_contract(contract);
  request.device.sm_count = sms;
  request.weights.quant_mode = QuantMode::w4a16;
  request.weights.source_format = SourceFormat::compressed_tensors;
  request.weights.activation = Activation::silu;
  request.weights.io_dtype = DType::bfloat16;
  request.weights.experts = experts;
  request.weights.hidden_size = hidden;
  request.weights.intermediate_size = intermediate;
  request.capacity.max_tokens = tokens;
  request.capacity.top_k = top_k;
  return request;
}

// The same weights read where they are.
inline MoeRequest native_request(const char* contract, i64 experts, i64 hidden, i64 intermediate, i64 top_k,
                                 i64 tokens, i64 sms) {
  MoeRequest request = packed_request(contract, experts, hidden, intermediate, top_k, tokens, sms);
  request.weights.source_format = SourceFormat::modelopt_nvfp4;
  return request;
}

// Trellis weights, fp16 activations, no router workspace.
inline MoeRequest trellis_request(const char* contract, i64 experts, i64 hidden, i64 intermediate, i64 top_k,
                                  i64 tokens, i64 sms) {
  MoeRequest request = packed_request(contract, experts, hidden, intermediate, top_k, tokens, sms);
  request.weights.source_format = request.contract->trellis_source;
  request.weights.io_dtype = DType::float16;
  if (request.contract->trellis_settings) request.weights.trellis_codebook = TrellisCodebook::mcg;
  request.capacity.route_experts = 0;
  return request;
}

inline MoeRequest expert_parallel_request(const char* contract, i64 local_experts, i64 global_experts,
                                          i64 hidden, i64 intermediate, i64 top_k, i64 tokens, i64 sms) {
  MoeRequest request = packed_request(contract, local_experts, hidden, intermediate, top_k, tokens, sms);
  request.kind = MoeKind::expert_parallel;
  request.capacity.global_experts = global_experts;
  return request;
}

// The tensor of that name, or null.
inline const TensorSpec* find_tensor(const MoeLayout& layout, std::string_view name) {
  for (const TensorSpec& tensor : layout.arena.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

inline i64 bytes_of(const MoeLayout& layout, std::string_view name) {
  const TensorSpec* tensor = find_tensor(layout, name);
  return tensor ? tensor->bytes : 0;
}

}  // namespace moeplan::test
