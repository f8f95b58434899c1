// The KV cache of one rank: bytes a token, blocks, tokens, and what a request needs. Tokens are exact when
// the available memory is; a printed amount of memory gives an interval. Source: docs/memory.md section 6.
#pragma once

#include <optional>
#include <string>

#include "planner/core/byte_range.hpp"
#include "planner/core/result.hpp"
#include "planner/deployment/deployment.hpp"

namespace moeplan {

// Bytes a token and layer of each MLA record. `latent` is kv_lora_rank, `rope` qk_rope_head_dim.
constexpr i64 mla_bfloat16_record(i64 latent, i64 rope) { return 2 * (latent + rope); }
constexpr i64 mla_fp8_record(i64 latent, i64 rope) { return latent + rope; }
// e4m3 latent, one fp32 scale every 128, bf16 rope.
constexpr i64 fp8_ds_mla_record(i64 latent, i64 rope) { return latent + latent / 128 * 4 + 2 * rope; }
// e2m1 latent, one e4m3 scale every 16, 16 bytes of token scale or padding, then the rope in e4m3 or bf16.
constexpr i64 nvfp4_ds_mla_record(i64 latent, i64 rope, bool rope_is_fp8) {
  return latent / 2 + latent / 16 + 16 + (rope_is_fp8 ? rope : 2 * rope);
}
// fp8 key with one fp32 scale every 128.
constexpr i64 indexer_record(i64 head_dim) { return head_dim + head_dim / 128 * 4; }
// Keys and values; heads replicate when there are more ranks than heads.
constexpr i64 gqa_record(i64 kv_heads, i64 tp, i64 head_dim, i64 item_bytes) {
  return 2 * ceil_div(kv_heads, tp) * head_dim * item_bytes;
}

struct KvCache {
  i64 record_bytes = 0;  // a token and layer
  i64 layers = 0;        // with the MTP layer
  i64 index_record_bytes = 0;
  i64 index_layers = 0;
  i64 block_tokens = 0;
  i64 dcp = 1;                      // ranks a request's tokens are spread over
  i64 declared_token_bytes = 0;     // in place of the product of the above, when not 0
  std::string description;          // how the record came about
  std::optional<i64> other_record;  // nvfp4_ds_mla: the record of the mode that was not assumed

  constexpr i64 bytes_per_token() const {
    if (declared_token_bytes > 0) return declared_token_bytes;
    return layers * record_bytes + index_layers * index_record_bytes;
  }
  constexpr i64 page_bytes() const { return block_tokens * bytes_per_token(); }
  constexpr i64 request_tokens_per_block() const { return block_tokens * dcp; }
};

// `stage_layers`: of this pipeline stage, in place of the model's. Errors point into the config.
Result<KvCache> kv_cache_of(const Deployment& deployment, std::optional<i64> stage_layers = std::nullopt);

// Whole blocks in `available` bytes.
i64 kv_blocks(const KvCache& cache, i64 available);

// Blocks one request of `max_model_len` tokens takes on each rank.
i64 blocks_per_request(const KvCache& cache, i64 max_model_len);

// Bytes one request of `max_model_len` tokens needs on each rank.
i64 needed_for_one_request(const KvCache& cache, i64 max_model_len);

// The cache's tokens as the engine computes them: int(blocks / per * max_model_len) in its floating point,
// reproduced with integers.
i64 kv_tokens(const KvCache& cache, i64 blocks, i64 max_model_len);

// The same over what an amount of memory can be; both ends included.
struct TokenRange {
  i64 lo;
  i64 hi;
};
TokenRange kv_tokens(const KvCache& cache, ByteRange available, i64 max_model_len);

// What the available memory can have been where the engine counts `tokens`; none where it counts no such
// number.
std::optional<ByteRange> memory_of_tokens(const KvCache& cache, i64 tokens, i64 max_model_len);

// The longest request that fits, in tokens.
i64 estimated_max_model_len(const KvCache& cache, i64 available);
TokenRange estimated_max_model_len(const KvCache& cache, ByteRange available);

// tokens / max_model_len in hundredths, rounded to nearest.
i64 max_concurrency_hundredths(i64 tokens, i64 max_model_len);

// Tokens that `bytes` are worth, before rounding to blocks.
i64 tokens_of_bytes(const KvCache& cache, i64 bytes);

}  // namespace moeplan
