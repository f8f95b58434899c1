#include "planner/deployment/kv_cache.hpp"

#include <bit>
#include <cstdint>

#include "planner/core/limits.hpp"
#include "planner/core/text.hpp"
#include "planner/core/wide.hpp"

namespace moeplan {
namespace {

__extension__ using UnsignedWide = unsigned __int128;

Error missing(std::string pointer, std::string_view why) {
  const std::string name = pointer.substr(pointer.rfind('/') + 1);
  return {ErrorCode::missing_field, std::move(pointer), concat(name, " is missing"), std::string(why)};
}

Error unsupported(std::string message) {
  return {ErrorCode::unsupported_deployment, "/deployment/kv_cache_dtype", std::move(message),
          "state kv_record_bytes, or budget.kv_bytes_per_token_per_rank"};
}

Status set_mla_record(const Deployment& d, KvCacheDtype dtype, KvCache& cache) {
  const ModelShape& model = *d.model;
  if (!model.qk_rope_head_dim) return missing("/model/qk_rope_head_dim", "the KV record of MLA holds it");
  const i64 latent = *model.kv_lora_rank, rope = *model.qk_rope_head_dim;
  switch (dtype) {
    case KvCacheDtype::bfloat16:
      cache.record_bytes = mla_bfloat16_record(latent, rope);
      cache.description = "MLA in bfloat16";
      return Ok{};
    case KvCacheDtype::fp8:
      // Sparse attention stores its own record under this name.
      if (!model.index_topk) {
        cache.record_bytes = mla_fp8_record(latent, rope);
        cache.description = "MLA in fp8";
        return Ok{};
      }
      [[fallthrough]];
    case KvCacheDtype::fp8_ds_mla:
      cache.record_bytes = fp8_ds_mla_record(latent, rope);
      cache.description = "fp8_ds_mla: fp8 latent, fp32 scales, bf16 rope";
      return Ok{};
    case KvCacheDtype::nvfp4_ds_mla:
      cache.record_bytes = nvfp4_ds_mla_record(latent, rope, true);
      cache.other_record = nvfp4_ds_mla_record(latent, rope, false);
      cache.description = "nvfp4_ds_mla: e2m1 latent, e4m3 scales, fp8 rope";
      return Ok{};
  }
  return Ok{};
}

Status set_gqa_record(const Deployment& d, KvCacheDtype dtype, KvCache& cache) {
  const ModelShape& model = *d.model;
  if (model.index_topk) return unsupported("sparse attention over a compressed cache is not modelled");
  if (dtype == KvCacheDtype::fp8_ds_mla || dtype == KvCacheDtype::nvfp4_ds_mla)
    return Error{ErrorCode::invalid_value, "/deployment/kv_cache_dtype",
                 concat(kKvCacheDtypeNames[static_cast<int>(dtype)], " needs a model with kv_lora_rank"),
                 "grouped-query attention takes bfloat16 or fp8"};
  if (!model.num_key_value_heads) return missing("/model/num_key_value_heads", "the KV record holds them");
  if (!model.head_dim) return missing("/model/head_dim", "the KV record holds it");
  const bool is_fp8 = dtype == KvCacheDtype::fp8;
  cache.record_bytes =
      gqa_record(*model.num_key_value_heads, d.parallel->tp, *model.head_dim, is_fp8 ? 1 : 2);
  cache.description = is_fp8 ? "keys and values in fp8" : "keys and values in bfloat16";
  return Ok{};
}

Status set_record(const Deployment& d, KvCache& cache) {
  const EngineSettings& engine = *d.engine;
  if (engine.kv_record_bytes) {
    cache.record_bytes = *engine.kv_record_bytes;
    cache.description = "stated as kv_record_bytes";
    return Ok{};
  }
  if (!engine.kv_cache_dtype)
    return missing("/deployment/kv_cache_dtype", "the KV cache has no default type here");
  return d.model->kv_lora_rank ? set_mla_record(d, *engine.kv_cache_dtype, cache)
                               : set_gqa_record(d, *engine.kv_cache_dtype, cache);
}

// The nearest 53-bit binary fraction, ties to even: value = mantissa * 2^exponent.
struct Binary64 {
  std::uint64_t mantissa;
  int exponent;
};

Binary64 rounded(UnsignedWide value, bool sticky, int exponent) {
  const auto high = static_cast<std::uint64_t>(value >> 64);
  const int width =
      high ? 128 - std::countl_zero(high) : 64 - std::countl_zero(static_cast<std::uint64_t>(value));
  const int excess = width - 53;
  if (excess <= 0) return {static_cast<std::uint64_t>(value), exponent};
  auto mantissa = static_cast<std::uint64_t>(value >> excess);
  const UnsignedWide rest = value - (UnsignedWide{mantissa} << excess);
  const UnsignedWide half = UnsignedWide{1} << (excess - 1);
  if (rest > half || (rest == half && (sticky || (mantissa & 1)))) ++mantissa;
  return {mantissa, exponent + excess};
}

}  // namespace

Result<KvCache> kv_cache_of(const Deployment& d, std::optional<i64> stage_layers) {
  KvCache cache;
  cache.dcp = d.parallel->dcp.value_or(1);
  cache.block_tokens = d.engine->kv_block_tokens.value_or(d.model->kv_lora_rank ? 64 : 16);
  if (d.budget && d.budget->kv_bytes_per_token_per_rank) {
    cache.declared_token_bytes = *d.budget->kv_bytes_per_token_per_rank;
    cache.description = "declared in budget";
    return cache;
  }
  if (auto s = set_record(d, cache); !s) return s.error();
  if (!d.model->num_hidden_layers && !stage_layers)
    return missing("/model/num_hidden_layers", "every layer keeps a KV record");
  const bool has_draft = d.engine->num_speculative_tokens.value_or(0) > 0;
  // One MTP layer serves any number of speculative tokens.
  cache.layers = stage_layers.value_or(d.model->num_hidden_layers.value_or(0) + (has_draft ? 1 : 0));
  if (d.model->index_topk) {
    if (!d.model->index_head_dim) return missing("/model/index_head_dim", "the indexer caches a key a token");
    const auto full_layers = d.model->index_full_layers;
    const IndexerCache kind =
        d.engine->indexer_cache.value_or(full_layers ? IndexerCache::full_layers : IndexerCache::all_layers);
    if (kind == IndexerCache::full_layers && !full_layers)
      return missing("/model/index_full_layers", "indexer_cache full_layers counts them");
    cache.index_record_bytes = indexer_record(*d.model->index_head_dim);
    cache.index_layers = kind == IndexerCache::all_layers ? cache.layers : *full_layers + (has_draft ? 1 : 0);
    cache.index_layers = min_of(cache.index_layers, cache.layers);
  }
  if (cache.record_bytes > kMaxKvBytesPerToken || cache.bytes_per_token() > kMaxKvBytesPerToken)
    return Error{ErrorCode::out_of_range, "/model",
                 concat("the KV cache takes more than ", kMaxKvBytesPerToken, " B a token and rank"), ""};
  return cache;
}

i64 kv_blocks(const KvCache& cache, i64 available) { return max_of(available, 0) / cache.page_bytes(); }

i64 blocks_per_request(const KvCache& cache, i64 max_model_len) {
  return ceil_div(max_model_len, cache.request_tokens_per_block());
}

i64 needed_for_one_request(const KvCache& cache, i64 max_model_len) {
  return blocks_per_request(cache, max_model_len) * cache.page_bytes();
}

i64 kv_tokens(const KvCache& cache, i64 blocks, i64 max_model_len) {
  const i64 per = blocks_per_request(cache, max_model_len);
  if (blocks <= 0 || per <= 0) return 0;
  // As many bits below the point as fit, and whether anything is left below those.
  const int shift = std::countl_zero(static_cast<std::uint64_t>(blocks)) + 63;
  const UnsignedWide scaled = static_cast<UnsignedWide>(blocks) << shift;
  const auto divisor = static_cast<UnsignedWide>(per);
  const Binary64 ratio = rounded(scaled / divisor, scaled % divisor != 0, -shift);
  const Binary64 tokens =
      rounded(static_cast<UnsignedWide>(ratio.mantissa) * static_cast<UnsignedWide>(max_model_len), false,
              ratio.exponent);
  return tokens.exponent >= 0
             ? static_cast<i64>(tokens.mantissa << tokens.exponent)
             : static_cast<i64>(tokens.exponent > -64 ? tokens.mantissa >> -tokens.exponent : 0);
}

TokenRange kv_tokens(const KvCache& cache, ByteRange available, i64 max_model_len) {
  return {kv_tokens(cache, kv_blocks(cache, available.lo), max_model_len),
          kv_tokens(cache, kv_blocks(cache, available.hi), max_model_len)};
}

std::optional<ByteRange> memory_of_tokens(const KvCache& cache, i64 tokens, i64 max_model_len) {
  // A block holds a token at least, and tokens never fall as blocks rise.
  const auto first_with = [&](i64 least) {
    i64 lo = 0, hi = least;
    while (lo < hi) {
      const i64 middle = lo + (hi - lo) / 2;
      if (kv_tokens(cache, middle, max_model_len) >= least)
        hi = middle;
      else
        lo = middle + 1;
    }
    return lo;
  };
  if (tokens < 0) return std::nullopt;
  const i64 first = first_with(tokens);
  if (kv_tokens(cache, first, max_model_len) != tokens) return std::nullopt;
  return ByteRange{first * cache.page_bytes(), first_with(tokens + 1) * cache.page_bytes() - 1};
}

i64 estimated_max_model_len(const KvCache& cache, i64 available) {
  return kv_blocks(cache, available) * cache.request_tokens_per_block();
}

TokenRange estimated_max_model_len(const KvCache& cache, ByteRange available) {
  return {estimated_max_model_len(cache, available.lo), estimated_max_model_len(cache, available.hi)};
}

i64 max_concurrency_hundredths(i64 tokens, i64 max_model_len) {
  return static_cast<i64>((2 * Wide{tokens} * 100 + max_model_len) / (2 * Wide{max_model_len}));
}

i64 tokens_of_bytes(const KvCache& cache, i64 bytes) {
  return static_cast<i64>(Wide{bytes} * cache.dcp / cache.bytes_per_token());
}

}  // namespace moeplan
