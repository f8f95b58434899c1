#include "cli/io/response.hpp"

#include "cli/io/indexer_response.hpp"
#include "cli/io/tensor_response.hpp"
#include "planner/moe/weight_plan.hpp"

namespace moeplan {
namespace {

// What only tensor-parallel plans have.
void write_tensor_parallel(JsonWriter& json, const MoeLayout& layout) {
  json.member("route_experts", layout.route_experts);
  json.member("bound_tokens", layout.bound_tokens);
  json.key("core_bytes_by_tokens").begin_object();
  for (const auto& [tokens, bytes] : layout.by_tokens) json.member(std::to_string(tokens), bytes);
  json.end_object();
  json.member("w13_layout", name_of(layout.w13_layout));
  if (layout.implementation == Implementation::w4a16) {
    json.member("scale_format", name_of(layout.scale_format));
    if (layout.route_block_size_m) json.member("route_block_size_m", *layout.route_block_size_m);
    return;
  }
  json.member("max_tokens_per_launch", layout.max_tokens_per_launch);
  if (layout.implementation == Implementation::dynamic) {
    json.member("tile_m", layout.tile_m);
    json.member("tile_n", layout.tile_n);
  }
}

void write_layout(JsonWriter& json, RequestKind kind, const MoeLayout& layout) {
  json.member("implementation", name_of(layout.implementation));
  json.key("weight_layout");
  if (layout.weight_layout) {
    json.value(layout_name(*layout.contract, *layout.weight_layout));
  } else {
    json.null();
  }
  json.member("total_bytes", layout.total_bytes);
  json.member("route_bytes", layout.route_bytes);
  json.member("core_bytes", layout.core_bytes);
  json.key("core_token_counts").begin_array();
  for (const CoreBytes& core : layout.by_tokens) json.value(core.tokens);
  json.end_array();
  if (kind == RequestKind::moe_tp) write_tensor_parallel(json, layout);
  write_tensors(json, layout.arena);
}

void write_layout(JsonWriter& json, RequestKind, const IndexerLayout& layout) {
  write_indexer_layout(json, layout);
}

}  // namespace

void write_response(JsonWriter& json, const PlanRequest& request, const PlanLayout& layout) {
  json.begin_object();
  json.member("id", request.id);
  json.key("layout").begin_object();
  std::visit([&](const auto& of_kind) { write_layout(json, request.kind, of_kind); }, layout);
  json.end_object();
  json.end_object();
}

void write_error_response(JsonWriter& json, std::string_view id, i64 line, const Error& error) {
  json.begin_object();
  json.key("id");
  if (id.empty()) {
    json.null();
  } else {
    json.value(id);
  }
  json.member("line", line);
  json.key("error").begin_object();
  json.member("code", name_of(error.code));
  json.member("message", error.message);
  if (!error.pointer.empty()) json.member("pointer", error.pointer);
  if (!error.help.empty()) json.member("help", error.help);
  json.end_object();
  json.end_object();
}

}  // namespace moeplan
