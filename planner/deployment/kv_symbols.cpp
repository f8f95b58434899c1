#include "planner/deployment/kv_symbols.hpp"

namespace moeplan {
namespace {

std::string mla_record(KvCacheDtype dtype, bool is_sparse) {
  switch (dtype) {
    case KvCacheDtype::bfloat16:
      return "2*(latent+rope)";
    case KvCacheDtype::fp8:
      if (!is_sparse) return "latent+rope";
      [[fallthrough]];
    case KvCacheDtype::fp8_ds_mla:
      return "latent+latent/128*4+2*rope";
    case KvCacheDtype::nvfp4_ds_mla:
      return "latent/2+latent/16+16+rope";
  }
  return "";
}

void add_record(Symbols& symbols, const Deployment& d, const KvCache& cache) {
  const ModelShape& model = *d.model;
  if (d.engine->kv_record_bytes) {
    add_input(symbols, "record", cache.record_bytes, "bytes a token and layer, as kv_record_bytes states");
    return;
  }
  const KvCacheDtype dtype = *d.engine->kv_cache_dtype;
  if (model.kv_lora_rank) {
    add_input(symbols, "latent", *model.kv_lora_rank, "kv_lora_rank");
    add_input(symbols, "rope", *model.qk_rope_head_dim, "qk_rope_head_dim");
    define(symbols, "record", mla_record(dtype, model.index_topk.has_value()), cache.description);
    return;
  }
  add_input(symbols, "kv_heads", *model.num_key_value_heads, "num_key_value_heads");
  add_input(symbols, "head_dim", *model.head_dim, "head_dim");
  add_input(symbols, "tp", d.parallel->tp, "ranks that share the heads");
  add_input(symbols, "item", dtype == KvCacheDtype::fp8 ? 1 : 2, "bytes of an element");
  define(symbols, "record", "2*cd(kv_heads,tp)*head_dim*item", cache.description);
}

void add_index(Symbols& symbols, const Deployment& d, const KvCache& cache) {
  const ModelShape& model = *d.model;
  add_input(symbols, "index_head", *model.index_head_dim, "index_head_dim");
  define(symbols, "index_record", "index_head+index_head/128*4", "bytes of an indexer key: fp8 and scales");
  const IndexerCache kind = d.engine->indexer_cache.value_or(
      model.index_full_layers ? IndexerCache::full_layers : IndexerCache::all_layers);
  if (kind == IndexerCache::all_layers) {
    define(symbols, "index_layers", "layers", "every layer keeps keys");
    return;
  }
  add_input(symbols, "full", *model.index_full_layers, "index_full_layers");
  define(symbols, "index_layers", "min(full+draft, layers)", "layers that keep keys");
  MOEPLAN_CHECK(find_symbol(symbols, "index_layers")->value == cache.index_layers,
                "the formula of the index layers disagrees with the cache");
}

}  // namespace

Symbols kv_symbols(const Deployment& d, const KvCache& cache) {
  Symbols symbols;
  if (cache.declared_token_bytes > 0) {
    add_input(symbols, "token", cache.declared_token_bytes,
              "bytes a token and rank, as budget.kv_bytes_per_token_per_rank declares");
  } else {
    add_record(symbols, d, cache);
    add_input(symbols, "draft", d.engine->num_speculative_tokens.value_or(0) > 0 ? 1 : 0,
              "the layer that speculates");
    add_input(symbols, "model_layers", d.model->num_hidden_layers.value_or(0), "num_hidden_layers");
    define(symbols, "layers", "model_layers+draft", "layers that keep a record");
    if (cache.index_layers > 0) add_index(symbols, d, cache);
    define(symbols, "token",
           cache.index_layers > 0 ? "layers*record+index_layers*index_record" : "layers*record",
           "bytes a token takes on a rank");
  }
  add_input(symbols, "block_tokens", cache.block_tokens, "tokens of a KV block");
  define(symbols, "page", "block_tokens*token", "bytes of a KV block");
  return symbols;
}

}  // namespace moeplan
