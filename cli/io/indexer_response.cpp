#include "cli/io/indexer_response.hpp"

#include "cli/io/tensor_response.hpp"

namespace moeplan {
namespace {

void write_meta(JsonWriter& json, const PagedMeta& meta) {
  json.member("supertile_tokens", meta.supertile_tokens);
  json.member("max_chunks", meta.max_chunks);
  json.key("prefill_block_k");
  if (meta.prefill_block_k) {
    json.value(*meta.prefill_block_k);
  } else {
    json.null();
  }
  json.member("tile_logits_elements", meta.tile_logits_elements);
  json.member("gather_k_rows", meta.gather_k_rows);
  json.member("fused_pack_elements", meta.fused_pack_elements);
  json.member("fused_state_words", meta.fused_state_words);
}

void write_meta(JsonWriter& json, const ContiguousMeta& meta) {
  json.member("max_k_rows", meta.max_k_rows);
  json.member("max_chunk_tiles", meta.max_chunk_tiles);
  json.member("tile_logits_elements", meta.tile_logits_elements);
}

void write_meta(JsonWriter& json, const FusedMeta& meta) {
  json.member("workspace_nbytes", meta.workspace_bytes);
}

void write_meta(JsonWriter& json, const PersistentTopkMeta& meta) {
  json.member("scratch_nbytes", meta.scratch_bytes);
}

void write_meta(JsonWriter& json, const FoldMeta& meta) {
  json.key("slices").begin_array();
  for (const FoldChunk& chunk : meta.chunks) {
    const i64 pair[] = {chunk.slices, chunk.base};
    json.inline_array(pair);
  }
  json.end_array();
  json.member("total_slices", meta.total_slices);
  json.member("candidate_nbytes", meta.candidate_bytes);
  json.member("budget_nbytes", meta.budget_bytes);
  json.member("reason", meta.reason);
}

void write_meta(JsonWriter& json, const FusedPolicyMeta& meta) {
  json.member("resolved", meta.resolved);
  json.member("head_tiles", meta.head_tiles);
  json.member("ctas_per_group", meta.ctas_per_group);
  json.member("merge_threshold", meta.merge_threshold);
  json.member("pack_elements", meta.pack_elements);
  json.member("state_words", meta.state_words);
  json.member("pack_need", meta.pack_need);
}

void write_allocation(JsonWriter& json, const Allocation& allocation) {
  json.begin_object();
  json.member("kind", allocation.fill ? "full" : "empty");
  write_shape(json, allocation.shape);
  json.member("dtype", name_of(allocation.dtype));
  json.member("nbytes", allocation.bytes);
  if (allocation.fill) json.member("fill", *allocation.fill);
  json.end_object();
}

void write_meta(JsonWriter& json, const StepMeta& meta) {
  json.member("num_chunks", meta.num_chunks);
  json.member("supertile_tokens", meta.supertile_tokens);
  json.key("launches").inline_array(meta.launches);
  json.key("allocations").begin_array();
  for (const Allocation& allocation : meta.allocations) write_allocation(json, allocation);
  json.end_array();
  json.key("env_read_counts").begin_object();
  for (const EnvReads& reads : meta.env_reads) json.member(reads.variable, reads.reads);
  json.end_object();
}

}  // namespace

void write_indexer_layout(JsonWriter& json, const IndexerLayout& layout) {
  json.member("route", name_of(layout.route));
  json.member("route_reason", layout.route_reason);
  json.member("total_bytes", layout.total_bytes);
  json.key("meta").begin_object();
  std::visit([&](const auto& of_kind) { write_meta(json, of_kind); }, layout.meta);
  json.end_object();
  write_tensors(json, layout.arena);
}

}  // namespace moeplan
