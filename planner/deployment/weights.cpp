#include "planner/deployment/weights.hpp"

#include "planner/core/text.hpp"
#include "planner/core/wide.hpp"

namespace moeplan {
namespace {

// Eighths of a bit a weight, scales included.
struct FormatRow {
  WeightFormat format;
  i64 bits_numerator;  // over 16,384: fp8 has one fp32 scale a 128 x 128 block
};
constexpr i64 kDenominator = 16384;
constexpr FormatRow kFormats[] = {
    {WeightFormat::nvfp4, 9 * kDenominator / 2},   // 4 bits and an e4m3 scale every 16
    {WeightFormat::mxfp4, 17 * kDenominator / 4},  // 4 bits and an e8m0 scale every 32
    {WeightFormat::fp8, 8 * kDenominator + 32},    // 8 bits and an fp32 scale every 16,384
    {WeightFormat::bfloat16, 16 * kDenominator},
};

// Bytes of `elements` weights; EXL3 has its own formula.
Wide dense_bytes(WeightFormat format, Wide elements) {
  for (const FormatRow& row : kFormats) {
    if (row.format == format)
      return (elements * row.bits_numerator + 8 * kDenominator - 1) / (8 * kDenominator);
  }
  return 0;
}

Status need(std::initializer_list<std::pair<std::string_view, const std::optional<i64>&>> fields) {
  for (const auto& [pointer, value] : fields) {
    if (!value)
      return Error{ErrorCode::missing_field, std::string(pointer),
                   concat(pointer.substr(pointer.rfind('/') + 1), " is missing"),
                   "the weights depend on it; state it, or budget.weights"};
  }
  return Ok{};
}

// Elements of one layer's attention on one rank: what each rank holds whole, and its share of the rest.
struct Attention {
  Wide replicated = 0;
  Wide divided = 0;
};

Attention attention_of(const Deployment& d) {
  const ModelShape& m = *d.model;
  const Wide hidden = *m.hidden_size, heads = *m.num_attention_heads;
  const i64 tp = d.parallel->tp;
  if (!m.kv_lora_rank) {
    const Wide width = *m.head_dim;
    const Wide kv_heads = ceil_div(*m.num_key_value_heads, tp);
    return {.replicated = 2 * hidden * kv_heads * width, .divided = 2 * hidden * heads * width / tp};
  }
  const Wide latent = *m.kv_lora_rank, rope = *m.qk_rope_head_dim, nope = *m.qk_nope_head_dim;
  const Wide value = *m.v_head_dim;
  const Wide query_in = m.q_lora_rank ? Wide{*m.q_lora_rank} : hidden;
  const Wide kv_up = latent * heads * (nope + value);
  Attention a;
  a.replicated = hidden * (latent + rope) + (m.q_lora_rank ? hidden * query_in : 0);
  // kv_up twice: the engine keeps the absorbed W_UK and W_UV beside it.
  a.divided = (query_in * heads * (nope + rope) + 2 * kv_up + heads * value * hidden) / tp;
  return a;
}

Wide indexer_elements(const ModelShape& m) {
  if (!m.index_topk) return 0;
  const Wide heads = *m.index_n_heads, width = *m.index_head_dim, hidden = *m.hidden_size;
  const Wide query_in = m.q_lora_rank ? Wide{*m.q_lora_rank} : hidden;
  return query_in * heads * width + hidden * width + hidden * heads;
}

Status check_fields(const Deployment& d, WeightFormat format) {
  const ModelShape& m = *d.model;
  if (auto s = need({{"/model/hidden_size", m.hidden_size},
                     {"/model/moe_intermediate_size", m.moe_intermediate_size},
                     {"/model/num_hidden_layers", m.num_hidden_layers},
                     {"/model/n_routed_experts", m.n_routed_experts},
                     {"/model/num_attention_heads", m.num_attention_heads},
                     {"/model/vocab_size", m.vocab_size}});
      !s)
    return s;
  if (m.first_k_dense_replace.value_or(0) > 0) {
    if (auto s = need({{"/model/intermediate_size", m.intermediate_size}}); !s) return s;
  }
  if (m.kv_lora_rank) {
    if (auto s = need({{"/model/qk_nope_head_dim", m.qk_nope_head_dim},
                       {"/model/qk_rope_head_dim", m.qk_rope_head_dim},
                       {"/model/v_head_dim", m.v_head_dim}});
        !s)
      return s;
  } else if (auto s = need(
                 {{"/model/num_key_value_heads", m.num_key_value_heads}, {"/model/head_dim", m.head_dim}});
             !s) {
    return s;
  }
  if (m.index_topk) {
    if (auto s =
            need({{"/model/index_n_heads", m.index_n_heads}, {"/model/index_head_dim", m.index_head_dim}});
        !s)
      return s;
  }
  if (format == WeightFormat::exl3 && d.quant->tiers.empty()) {
    if (auto s = need({{"/quant/bits", d.quant->bits}}); !s) return s;
  }
  const i64 ranks = d.parallel->tp * d.parallel->ep.value_or(1);
  if (d.parallel->ep.value_or(1) == 1 && *m.moe_intermediate_size % ranks != 0)
    return Error{ErrorCode::indivisible, "/parallel/tp",
                 concat("moe_intermediate_size ", *m.moe_intermediate_size, " is not divided by tp ", ranks),
                 "choose a tp that divides it"};
  return Ok{};
}

class Builder {
 public:
  void add(std::string name, Wide lo, Wide hi) {
    if (hi <= 0) return;
    too_large_ = too_large_ || hi > (Wide{1} << 56);
    if (!too_large_)
      weights_.parts.push_back({std::move(name), {static_cast<i64>(lo), static_cast<i64>(hi)}});
  }
  void add(std::string name, Wide bytes) { add(std::move(name), bytes, bytes); }

  Result<Weights> finish() {
    if (too_large_)
      return Error{ErrorCode::out_of_range, "/model", "the weights take more than 2^56 bytes a rank", ""};
    return std::move(weights_);
  }

 private:
  Weights weights_;
  bool too_large_ = false;
};

}  // namespace

i64 exl3_expert_bytes(i64 hidden, i64 intermediate, i64 bits) {
  // Three matrices of `bits` a weight, their fp16 signs for both sides, a joined copy of the signs on the
  // intermediate side, nine pointers.
  const i64 trellis = 3 * hidden * intermediate * bits / 8;
  const i64 signs = 2 * (2 * (hidden + intermediate) + (intermediate + hidden));
  const i64 joined = 2 * 3 * intermediate;
  return trellis + signs + joined + 9 * 8;
}

ByteRange Weights::formula_bytes() const {
  ByteRange sum;
  for (const WeightPart& part : parts) sum = sum + part.bytes;
  return sum;
}

ByteRange Weights::bytes() const {
  const ByteRange formula = formula_bytes();
  return {formula.lo - formula.lo / 40, formula.hi + ceil_div(formula.hi, 40)};
}

Result<WeightFormat> weight_format_of(const Deployment& d) {
  if (d.quant->weights) return *d.quant->weights;
  if (d.quant->source_format) {
    switch (*d.quant->source_format) {
      case SourceFormat::exl3_trellis_mcg:
      case SourceFormat::btx:
        return WeightFormat::exl3;
      case SourceFormat::modelopt_nvfp4:
        return WeightFormat::nvfp4;
      case SourceFormat::fp4_e8m0_k32:
        return WeightFormat::mxfp4;
      case SourceFormat::compressed_tensors:
      case SourceFormat::mxfp6_e2m3:
        break;
    }
  }
  return Error{ErrorCode::missing_field, "/quant/weights", "weights is missing",
               concat("write one of ", join(kWeightFormatNames, ", "), ", or state budget.weights")};
}

Result<Weights> weights_of(const Deployment& d) {
  const auto format = weight_format_of(d);
  if (!format) return format.error();
  if (auto s = check_fields(d, *format); !s) return s.error();
  const ModelShape& m = *d.model;
  const i64 tp = d.parallel->tp, ep = d.parallel->ep.value_or(1);
  const bool has_mtp = d.engine->num_speculative_tokens.value_or(0) > 0;
  const Wide layers = *m.num_hidden_layers;
  const Wide dense_layers = min_of(m.first_k_dense_replace.value_or(0), *m.num_hidden_layers);
  const Wide moe_layers = layers - dense_layers;
  const Wide hidden = *m.hidden_size;
  // The layers around the experts keep bf16 unless the whole checkpoint is fp8.
  const WeightFormat rest = *format == WeightFormat::fp8 ? WeightFormat::fp8 : WeightFormat::bfloat16;

  // With expert parallelism each rank holds whole experts of the layer.
  const i64 split = ep > 1 ? 1 : tp;
  const i64 local_experts = ep > 1 ? ceil_div(*m.n_routed_experts, ep) : *m.n_routed_experts;
  const Wide expert_elements = 3 * hidden * *m.moe_intermediate_size / split;
  const auto experts_bytes = [&](WeightFormat stored, i64 bits, i64 count) -> Wide {
    if (stored != WeightFormat::exl3) return count * dense_bytes(stored, expert_elements);
    return Wide{count} * exl3_expert_bytes(*m.hidden_size, *m.moe_intermediate_size / split, bits);
  };
  Wide layer_experts = 0;
  i64 lowest_bits = d.quant->bits.value_or(8);
  for (const QuantTier& tier : d.quant->tiers) {
    layer_experts += experts_bytes(WeightFormat::exl3, tier.bits, tier.experts);
    if (!d.quant->bits) lowest_bits = min_of(lowest_bits, tier.bits);
  }
  if (d.quant->tiers.empty()) layer_experts = experts_bytes(*format, lowest_bits, local_experts);

  const Attention attention = attention_of(d);
  const Wide attention_bytes = dense_bytes(rest, attention.replicated + attention.divided);
  const Wide indexer_bytes = 2 * indexer_elements(m);
  const Wide shared_width =
      m.shared_expert_intermediate_size.value_or(m.n_shared_experts.value_or(0) * *m.moe_intermediate_size);
  const Wide shared_bytes = dense_bytes(rest, 3 * hidden * shared_width / tp);
  const Wide gate_bytes = 4 * hidden * *m.n_routed_experts;
  const bool keeps_all = d.engine->indexer_cache == IndexerCache::all_layers || !m.index_full_layers;
  const Wide index_layers = keeps_all ? layers : Wide{*m.index_full_layers};
  const Wide embeddings = m.tie_word_embeddings.value_or(false) ? 1 : 2;

  Builder parts;
  parts.add("routed experts", moe_layers * layer_experts);
  parts.add("shared experts", moe_layers * shared_bytes);
  parts.add("router gates", moe_layers * gate_bytes);
  parts.add("attention", layers * attention_bytes);
  parts.add("indexer", index_layers * indexer_bytes);
  parts.add("dense layers",
            dense_layers * dense_bytes(rest, 3 * hidden * m.intermediate_size.value_or(0) / tp));
  parts.add("embedding and head", embeddings * 2 * hidden * ceil_div(*m.vocab_size, tp));
  if (has_mtp) {
    const bool same = *format != WeightFormat::exl3 || d.engine->draft_is_exl3.value_or(false);
    // A draft beside EXL3 experts is stored as nvfp4 or bf16; which one the config does not say.
    const Wide lo = experts_bytes(same ? *format : WeightFormat::nvfp4, lowest_bits, local_experts);
    const Wide hi = experts_bytes(same ? *format : WeightFormat::bfloat16, lowest_bits, local_experts);
    const Wide around = attention_bytes + indexer_bytes + shared_bytes + gate_bytes + 2 * 2 * hidden * hidden;
    parts.add("MTP layer", around + lo, around + hi);
  }
  return parts.finish();
}

}  // namespace moeplan
