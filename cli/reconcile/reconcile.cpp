#include "cli/reconcile/reconcile.hpp"

#include <algorithm>

#include "cli/io/decimal.hpp"
#include "planner/core/text.hpp"
#include "planner/core/wide.hpp"
#include "planner/deployment/engine_figures.hpp"
#include "planner/deployment/exl3_runtime.hpp"
#include "planner/deployment/plan_requests.hpp"
#include "planner/deployment/weights.hpp"

namespace moeplan {
namespace {

// Some keys have the names of planner functions, which are called with moeplan:: below.
using enum LogKey;

// Beyond these a printed number is no figure of an engine; below them no sum or product leaves 63 bits.
constexpr i64 kMostBytes = i64{1} << 50;
constexpr i64 kMostTokens = i64{1} << 32;

// A figure in GiB; none when it is no amount of memory.
std::optional<ByteRange> printed_memory(const LogFigure& figure) {
  const auto bytes = parse_printed_bytes(concat(figure.text, " GiB"));
  return bytes && bytes->hi <= kMostBytes ? bytes : std::nullopt;
}

std::optional<i64> at_most(std::optional<i64> value, i64 most) {
  return value && *value <= most ? value : std::nullopt;
}

struct Prediction {
  std::string predicted;
  std::optional<bool> match;
  std::string why;
};

Prediction underivable(std::string why) { return {"", std::nullopt, std::move(why)}; }

// Both ends in steps of 1 / 10^decimals: "1.895", "-0.010".
std::string decimal(i64 steps, int decimals) {
  std::string digits = std::to_string(steps < 0 ? -steps : steps);
  const auto places = static_cast<std::size_t>(decimals);
  if (digits.size() <= places) digits.insert(0, places + 1 - digits.size(), '0');
  if (decimals > 0) digits.insert(digits.size() - places, ".");
  return steps < 0 ? concat("-", digits) : digits;
}

std::string range_text(const std::string& lo, const std::string& hi) {
  return lo == hi ? lo : concat(lo, "..", hi);
}

// Bytes in GiB, rounded outwards to a digit more than the engine prints.
std::string gibibytes(ByteRange bytes) {
  const auto steps = [](i64 value, bool up) {
    const Wide scaled = Wide{value} * 1000;
    const Wide unit = Wide{1} << 30;
    const Wide floor = scaled >= 0 ? scaled / unit : -((-scaled + unit - 1) / unit);
    return static_cast<i64>(floor + (up && floor * unit != scaled ? 1 : 0));
  };
  return range_text(decimal(steps(bytes.lo, false), 3), decimal(steps(bytes.hi, true), 3));
}

bool meet(ByteRange a, ByteRange b) { return a.lo <= b.hi && b.lo <= a.hi; }

// A figure of the log under comparison, and where the inputs of its prediction are found.
struct Context {
  const EngineLog& log;
  const KnownDeployment& known;
  const LogStatement& statement;
  const LogFigure& figure;
  std::string missing_inputs;  // named by the inputs that were looked for in vain

  // What the log says of a key: this line before others; of several values all that lies between them.
  std::vector<const LogFigure*> inputs(LogKey key) const {
    if (const LogFigure* own = statement.find(key)) return {own};
    std::vector<const LogFigure*> found;
    for (const LogStatement& other : log.statements) {
      const LogFigure* input = other.find(key);
      if (input && input->line == figure.line) return {input};
    }
    return log.all(key);
  }

  // The bytes that one of several inputs, in GiB, can be.
  std::optional<ByteRange> memory(LogKey key, std::string_view name) {
    std::optional<ByteRange> hull;
    for (const LogFigure* input : inputs(key)) {
      const auto bytes = printed_memory(*input);
      if (!bytes) continue;
      hull = hull ? ByteRange{min_of(hull->lo, bytes->lo), max_of(hull->hi, bytes->hi)} : *bytes;
    }
    if (!hull) missing_inputs += concat(missing_inputs.empty() ? "" : ", ", name);
    return hull;
  }

  // Every rank gets what the one with the least has; another start may have had another amount.
  std::optional<ByteRange> available() {
    if (log.starts > 1) return memory(available_kv, "the available KV memory");
    const LogFigure* least = log.smallest(available_kv);
    if (!least) {
      missing_inputs = "the available KV memory";
      return std::nullopt;
    }
    return printed_memory(*least);
  }

  std::optional<i64> utilization() const {
    if (known.deployment && known.deployment->engine && known.deployment->engine->gpu_memory_utilization)
      return known.deployment->engine->gpu_memory_utilization;
    const auto printed = inputs(LogKey::utilization);
    return printed.empty() ? std::nullopt : at_most(scaled_decimal(printed[0]->text, 1'000'000), 1'000'000);
  }

  i64 number(LogKey key) const {
    const LogFigure* input = statement.find(key);
    return input ? at_most(scaled_decimal(input->text, 1), kMostTokens).value_or(0) : 0;
  }

  // Why nothing can be said that needs the deployment: what is missing of the sections; "" when all is there.
  std::string what_is_missing(std::span<const std::string_view> sections) const {
    if (!known.deployment) return "the log does not show the engine's start: give it from its beginning";
    for (const Missing& field : known.missing) {
      for (std::string_view section : sections) {
        if (field.pointer.starts_with(section))
          return concat(field.pointer.substr(1), " is not known: add ", field.remedy);
      }
    }
    return "";
  }
};

Prediction not_printed(const Context& c) {
  return underivable(concat("the log does not print ", c.missing_inputs));
}

Prediction compare_memory(const Context& c, ByteRange predicted) {
  const auto logged = printed_memory(c.figure);
  return {gibibytes(predicted), logged && meet(predicted, *logged), ""};
}

// The runtimes that an EXL3 line states, under the capacities and blocks of that line.
using EngineVariable = std::pair<LogKey, std::string_view>;

struct RuntimesOrWhy {
  std::vector<Exl3Runtime> runtimes;
  std::string why;
};

RuntimesOrWhy runtimes_of(const Context& c, std::span<const EngineVariable> variables) {
  constexpr std::string_view kSections[] = {"/model", "/quant", "/parallel", "/device", "/deployment"};
  if (std::string why = c.what_is_missing(kSections); !why.empty()) return {{}, std::move(why)};
  Deployment d = *c.known.deployment;
  for (const auto& [key, name] : variables) {
    const LogFigure* printed = c.statement.find(key);
    if (!printed) continue;
    std::erase_if(d.engine->env,
                  [&removed = name](const auto& variable) { return variable.first == removed; });
    d.engine->env.emplace_back(name, printed->text);
  }
  if (!is_exl3(d)) return {{}, "the line is of EXL3 experts, and quant.source_format is another"};
  auto runtimes = exl3_runtimes(d);
  if (!runtimes) return {{}, runtimes.error().message};
  return {std::move(*runtimes), ""};
}

Prediction compare_mebibytes(const Context& c, i64 bytes) {
  const i64 tenths = tenths_of_mebibytes(bytes);
  return {decimal(tenths, 1), tenths == scaled_decimal(c.figure.text, 10), ""};
}

Prediction predict_arena(Context& c) {
  constexpr EngineVariable kVariables[] = {
      {sliced_min_m, "VLLM_EXL3_TRELLIS_MIN_M"},       {sliced_max_m, "VLLM_EXL3_TRELLIS_MAX_M"},
      {sliced_block_m, "VLLM_EXL3_TRELLIS_BLOCK_M"},   {sliced_prefill_block_m, "VLLM_EXL3_PREFILL_BLOCK_M"},
      {sliced_capacity, "VLLM_EXL3_PREFILL_CAPACITY"}, {sliced_chunk, "VLLM_EXL3_PREFILL_CHUNK"}};
  const auto [runtimes, why] = runtimes_of(c, kVariables);
  if (!why.empty()) return underivable(why);
  for (const Exl3Runtime& runtime : runtimes) {
    if (runtime.form == RuntimeForm::rank_sliced && runtime.prefill_tokens > 0)
      return compare_mebibytes(c, logged_arena_bytes(runtime));
  }
  return underivable("these settings plan no rank-sliced prefill arena");
}

Prediction predict_mixed(Context& c, bool prefill) {
  const bool is_serial = c.statement.find(mixed_prefill_buffers) != nullptr;
  constexpr EngineVariable kVariables[] = {{mixed_decode_capacity, "VLLM_EXL3_TRELLIS_MAX_M"},
                                           {mixed_block_m, "VLLM_EXL3_PREFILL_BLOCK_M"},
                                           {mixed_prefill_capacity, "VLLM_EXL3_PREFILL_CAPACITY"}};
  const auto [runtimes, why] = runtimes_of(c, kVariables);
  if (!why.empty()) return underivable(why);
  for (const Exl3Runtime& runtime : runtimes) {
    if (runtime.form != (is_serial ? RuntimeForm::mixed_serial : RuntimeForm::mixed_one_grid)) continue;
    const LoggedBuffers buffers = logged_buffer_bytes(runtime);
    return compare_mebibytes(c, prefill ? buffers.prefill_bytes : buffers.decode_bytes);
  }
  return underivable("these settings plan no runtime of that form");
}

Prediction predict_loading(Context& c) {
  constexpr std::string_view kSections[] = {"/model", "/quant", "/parallel"};
  if (std::string why = c.what_is_missing(kSections); !why.empty()) return underivable(std::move(why));
  const auto weights = weights_of(*c.known.deployment);
  if (!weights) return underivable(concat(weights.error().message, ", which the weights' model needs"));
  return compare_memory(c, weights->bytes());
}

Prediction predict_requested(Context& c) {
  const auto total = c.memory(total_memory, "the total memory");
  if (!total) return not_printed(c);
  const auto share = c.utilization();
  if (!share) return underivable("the utilization is not known");
  return compare_memory(c, requested_memory(*total, *share));
}

Prediction predict_available(Context& c) {
  const auto asked = c.memory(requested, "requested memory");
  const auto loaded = c.memory(weights, "weights");
  const auto peak = c.memory(peak_activation, "peak activation");
  const auto other = c.memory(non_torch, "non-torch memory");
  // Without profiling the engine prints an estimate and sets nothing aside.
  const auto graphs = c.log.first(graph_profiling_disabled) ? std::optional(exactly(0))
                                                            : c.memory(graph_estimate, "the graph estimate");
  if (!asked || !loaded || !peak || !other || !graphs) return not_printed(c);
  return compare_memory(c, available_kv_memory(*asked, *loaded, *peak, *other, *graphs));
}

struct CacheOrWhy {
  KvCache cache;
  std::string why;
};

CacheOrWhy cache_of(const Context& c) {
  // The cache needs few of a model's fields, and names the one it lacks itself.
  if (!c.known.deployment) return {{}, c.what_is_missing({})};
  const Deployment& d = *c.known.deployment;
  constexpr std::string_view kSections[] = {"/model", "/parallel", "/deployment"};
  if (!d.model || !d.parallel || !d.engine) return {{}, c.what_is_missing(kSections)};
  auto cache = kv_cache_of(d);
  if (!cache) return {{}, concat(cache.error().message, ": ", cache.error().help)};
  return {std::move(*cache), ""};
}

// The record of nvfp4_ds_mla in the mode that was not taken; none for other caches.
std::optional<KvCache> other_record(const Context& c, const KvCache& cache) {
  const Deployment& d = *c.known.deployment;
  if (d.engine->kv_cache_dtype != KvCacheDtype::nvfp4_ds_mla || !d.model->kv_lora_rank ||
      !d.model->qk_rope_head_dim || cache.declared_token_bytes > 0)
    return std::nullopt;
  KvCache other = cache;
  const i64 fp8 = nvfp4_ds_mla_record(*d.model->kv_lora_rank, *d.model->qk_rope_head_dim, true);
  const i64 bfloat16 = nvfp4_ds_mla_record(*d.model->kv_lora_rank, *d.model->qk_rope_head_dim, false);
  other.record_bytes = cache.record_bytes == fp8 ? bfloat16 : fp8;
  return other;
}

// A log does not show the mode of nvfp4_ds_mla: where a figure differs, what the other record gives.
void name_other_record(const Context& c, const KvCache& cache, Prediction& prediction,
                       const auto& predicted_with) {
  if (prediction.match != false) return;
  const auto other = other_record(c, cache);
  if (other)
    prediction.why = concat("predicted with records of ", cache.record_bytes, " B; those of ",
                            other->record_bytes, " B give ", predicted_with(*other),
                            ": state the one that runs with --set /deployment/kv_record_bytes");
}

std::string tokens_text(TokenRange tokens) {
  return range_text(std::to_string(tokens.lo), std::to_string(tokens.hi));
}

bool is_inside(const Context& c, TokenRange tokens) {
  const auto logged = scaled_decimal(c.figure.text, 1);
  return logged && tokens.lo <= *logged && *logged <= tokens.hi;
}

// An engine argument that is a whole number; none when it is not given.
std::optional<i64> argument_of(const EngineLog& log, std::string_view name, i64 most) {
  const Literal* value = log.arguments ? log.arguments->value.find(name) : nullptr;
  if (!value || value->type != Literal::Type::number) return std::nullopt;
  return at_most(scaled_decimal(value->text, 1), most);
}

Prediction predict_tokens(Context& c) {
  const auto [cache, why] = cache_of(c);
  if (!why.empty()) return underivable(why);
  const auto& length = c.known.deployment->engine->max_model_len;
  if (!length) return underivable("max_model_len is not known");
  // Both take the place of what the profile leaves.
  const auto blocks = argument_of(c.log, "num_gpu_blocks_override", i64{1} << 31);
  auto memory = c.available();
  if (const auto bytes = argument_of(c.log, "kv_cache_memory_bytes", kMostBytes)) memory = exactly(*bytes);
  if (!blocks && !memory) return not_printed(c);
  const auto tokens_with = [&](const KvCache& of) {
    if (!blocks) return moeplan::kv_tokens(of, *memory, *length);
    const i64 tokens = moeplan::kv_tokens(of, *blocks, *length);
    return TokenRange{tokens, tokens};
  };
  const TokenRange tokens = tokens_with(cache);
  Prediction prediction{tokens_text(tokens), is_inside(c, tokens), ""};
  name_other_record(c, cache, prediction, [&](const KvCache& of) { return tokens_text(tokens_with(of)); });
  return prediction;
}

Prediction predict_concurrency(Context& c) {
  const auto tokens = c.log.all(kv_tokens);
  const i64 length = c.number(concurrency_tokens);
  if (tokens.empty() || length <= 0) return underivable("the log does not print the KV cache tokens");
  const auto logged = scaled_decimal(c.figure.text, 100);
  Prediction prediction{"", false, ""};
  std::vector<std::string> texts;
  for (const LogFigure* figure : tokens) {
    const auto count = scaled_decimal(figure->text, 1);
    if (!count || !logged) continue;
    texts.push_back(decimal(max_concurrency_hundredths(*count, length), 2));
    // Half of the last digit; the engine cuts tokens to a whole number after it divides.
    const bool fits = 200 * Wide{*count} <= (2 * Wide{*logged} + 1) * length &&
                      200 * (Wide{*count} + 1) >= (2 * Wide{*logged} - 1) * length;
    prediction.match = *prediction.match || fits;
  }
  if (texts.empty()) return underivable("the printed tokens or the printed concurrency are no number");
  prediction.predicted = join(texts, " or ");
  return prediction;
}

Prediction predict_needed(Context& c) {
  const auto [cache, why] = cache_of(c);
  if (!why.empty()) return underivable(why);
  const i64 length = c.number(needed_model_len);
  if (length <= 0) return underivable("the line does not name the request's length");
  const auto hundredths = [&](const KvCache& of) {
    return hundredths_of_gibibytes(needed_for_one_request(of, length));
  };
  Prediction prediction{decimal(hundredths(cache), 2),
                        hundredths(cache) == scaled_decimal(c.figure.text, 100), ""};
  name_other_record(c, cache, prediction, [&](const KvCache& of) { return decimal(hundredths(of), 2); });
  return prediction;
}

Prediction predict_longest(Context& c) {
  const auto [cache, why] = cache_of(c);
  if (!why.empty()) return underivable(why);
  const auto memory = c.available();
  if (!memory) return not_printed(c);
  const TokenRange tokens = estimated_max_model_len(cache, *memory);
  Prediction prediction{tokens_text(tokens), is_inside(c, tokens), ""};
  name_other_record(c, cache, prediction,
                    [&](const KvCache& of) { return tokens_text(estimated_max_model_len(of, *memory)); });
  return prediction;
}

Prediction predict_utilization(Context& c, int sign) {
  const auto estimate = c.memory(graph_estimate, "the graph estimate");
  const auto total = c.memory(total_memory, "the total memory");
  if (!estimate || !total) return not_printed(c);
  const auto share = c.utilization();
  if (!share) return underivable("the utilization is not known");
  const PpmRange predicted = utilization_with_graphs(*share, sign, *estimate, *total);
  constexpr i64 kHalf = 50;  // of the fourth decimal
  const i64 logged = at_most(scaled_decimal(c.figure.text, 1'000'000), kMostBytes).value_or(0);
  return {range_text(decimal(predicted.lo, 6), decimal(predicted.hi, 6)),
          predicted.lo <= logged + kHalf && logged - kHalf <= predicted.hi, ""};
}

Prediction predict_difference(Context& c) {
  const auto estimate = c.memory(graph_estimate, "the graph estimate");
  const auto actual = c.memory(graph_actual, "the actual pool");
  if (!estimate || !actual) return not_printed(c);
  return compare_memory(c, graph_pool_difference(*estimate, *actual));
}

Prediction predict_suggestion(Context& c, LogKey memory_key, std::string_view name) {
  const auto memory = c.memory(memory_key, name);
  const auto loaded = c.memory(weights, "weights");
  const auto peak = c.memory(peak_activation, "peak activation");
  const auto other = c.memory(non_torch, "non-torch memory");
  const auto graphs = c.memory(graph_actual, "the actual graph pool");
  if (!memory || !loaded || !peak || !other || !graphs) return not_printed(c);
  const ByteRange predicted = suggested_kv_memory(*memory, *loaded, *peak, *other, *graphs);
  const auto logged = scaled_decimal(c.figure.text, 1);
  return {range_text(std::to_string(predicted.lo), std::to_string(predicted.hi)),
          logged && predicted.lo <= *logged && *logged <= predicted.hi, ""};
}

struct Figure {
  FigureName name;
  LogKey key;
  Prediction (*predict)(Context&);
};

// Source: docs/memory.md section 9.
constexpr Figure kFigures[] = {
    {{"rank-sliced arena", "MiB", "the prefill arena of these settings; equal at 0.1 MiB"},
     sliced_arena,
     predict_arena},
    {{"mixed buffers", "MiB", "decode and prefill state of these settings; equal at 0.1 MiB"},
     mixed_buffers,
     [](Context& c) { return predict_mixed(c, false); }},
    {{"mixed prefill buffers", "MiB", "the tiers' shared prefill arena and its sums; equal at 0.1 MiB"},
     mixed_prefill_buffers,
     [](Context& c) { return predict_mixed(c, true); }},
    {{"model loading", "GiB", "the weights' model, within 2.5 %"}, model_loading, predict_loading},
    {{"requested memory", "GiB", "total memory x utilization; within the printed digits"},
     requested,
     predict_requested},
    {{"available KV memory", "GiB",
      "requested - weights - peak activation - non-torch - graph estimate; within the printed digits"},
     available_kv,
     predict_available},
    {{"KV cache tokens", "tokens", "whole blocks in the available KV memory; within its printed digits"},
     kv_tokens,
     predict_tokens},
    {{"maximum concurrency", "x", "logged tokens / tokens a request; within 0.005"},
     concurrency,
     predict_concurrency},
    {{"KV needed for one request", "GiB", "blocks of a request x bytes of a block; equal at 0.01 GiB"},
     needed_kv,
     predict_needed},
    {{"estimated maximum model length", "tokens",
      "tokens of whole blocks in the available KV memory; within its printed digits"},
     estimated_model_len,
     predict_longest},
    {{"equivalent utilization", "fraction",
      "utilization - graph estimate / total; within the printed digits"},
     equivalent_utilization,
     [](Context& c) { return predict_utilization(c, -1); }},
    {{"increased utilization", "fraction", "utilization + graph estimate / total; within the printed digits"},
     increased_utilization,
     [](Context& c) { return predict_utilization(c, 1); }},
    {{"graph pool difference", "GiB", "|estimated - actual|; within the printed digits"},
     graph_difference,
     predict_difference},
    {{"suggested --kv-cache-memory-bytes, as requested", "B",
      "requested - weights - peak activation - non-torch - graphs - 150 MiB; within the printed digits"},
     suggested_kv_bytes,
     [](Context& c) { return predict_suggestion(c, requested, "requested memory"); }},
    {{"suggested --kv-cache-memory-bytes, all memory", "B",
      "free at start - weights - peak activation - non-torch - graphs - 150 MiB; within the printed digits"},
     suggested_kv_bytes_full,
     [](Context& c) { return predict_suggestion(c, free_memory, "free memory"); }},
};

}  // namespace

std::vector<FigureName> reconciled_figures() {
  std::vector<FigureName> names;
  for (const Figure& figure : kFigures) names.push_back(figure.name);
  return names;
}

std::vector<ReconciledFigure> reconcile(const EngineLog& log, const KnownDeployment& known) {
  std::vector<ReconciledFigure> lines;
  for (const Figure& figure : kFigures) {
    const auto first = lines.size();
    for (const LogStatement& statement : log.statements) {
      const LogFigure* printed = statement.find(figure.key);
      if (!printed) continue;
      Context context{log, known, statement, *printed, {}};
      Prediction p = figure.predict(context);
      const bool is_known = std::any_of(
          lines.begin() + static_cast<std::ptrdiff_t>(first), lines.end(), [&](const ReconciledFigure& line) {
            return line.logged == printed->text && line.predicted == p.predicted;
          });
      if (!is_known)
        lines.push_back(
            {figure.name, printed->line, std::move(p.predicted), printed->text, p.match, std::move(p.why)});
    }
  }
  return lines;
}

}  // namespace moeplan
