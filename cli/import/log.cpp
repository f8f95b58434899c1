// An engine's log to rows: its settings, then the figures it printed.
#include <algorithm>

#include "cli/import/engine_arguments.hpp"
#include "cli/import/engine_log.hpp"
#include "cli/import/shipped.hpp"
#include "cli/import/sources.hpp"
#include "cli/io/decimal.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

class LogRows {
 public:
  LogRows(Import& import, const EngineLog& log)
      : import_(import), log_(log), path_(import.keep(log.name)), name_(base_name(path_)) {}

  void add_all() {
    add_arguments();
    add_fallbacks();
    add_mixed();
    add_sliced();
    add_device();
    add_measured();
    if (const LogFigure* version = log_.first(LogKey::engine_version)) {
      import_.engine = version->text;
      add("/deployment/engine", json_of(std::string_view(version->text)), *version);
    }
  }

 private:
  std::string from(const LogFigure& figure) const { return concat(name_, ":", figure.line); }
  void add(std::string pointer, std::string json, const LogFigure& figure, RowKind kind = RowKind::imported,
           Rank rank = Rank::engine, bool must_agree = false) {
    import_.add({std::move(pointer), std::move(json), from(figure), kind, rank, must_agree});
  }

  // The arguments first; what they leave out, the config dump says. Resolved capture sizes stand in the dump
  // alone.
  void add_arguments() {
    std::vector<EngineArgument> arguments;
    const auto take = [&](const LogDump& dump, std::string_view name, std::string_view as) {
      const Literal* value = dump.value.find(name);
      if (!value || std::ranges::find(arguments, as, &EngineArgument::name) != arguments.end()) return;
      if (value->type == Literal::Type::none && as != "speculative_config") return;
      arguments.push_back({std::string(as), *value, concat(name_, ":", dump.line, " ", name),
                           Place{.source = path_, .line = dump.line, .column = dump.column}});
    };
    if (log_.config) {
      const Literal* compilation = log_.config->value.find("compilation_config");
      const Literal* sizes = compilation ? compilation->find("cudagraph_capture_sizes") : nullptr;
      if (sizes && sizes->type == Literal::Type::list)
        take(*log_.config, "compilation_config", "compilation_config");
    }
    if (log_.arguments) {
      for (const LiteralMember& member : log_.arguments->value.members)
        take(*log_.arguments, member.name, member.name);
    }
    if (log_.config) {
      for (std::string_view name :
           {"model", "tensor_parallel_size", "data_parallel_size", "pipeline_parallel_size",
            "decode_context_parallel_size", "kv_cache_dtype", "quantization", "dtype", "speculative_config"})
        take(*log_.config, name, name);
      take(*log_.config, "max_seq_len", "max_model_len");
    }
    import_arguments(import_, arguments);
  }

  bool has(std::string_view pointer) const { return find_row(import_, pointer) != nullptr; }

  void add_fallbacks() {
    constexpr std::string_view kBatched = "/deployment/max_num_batched_tokens";
    for (LogKey key : {LogKey::mixed_scheduler_capacity, LogKey::sliced_scheduler_capacity}) {
      const LogFigure* figure = log_.first(key);
      if (figure && !has(kBatched)) add(std::string(kBatched), figure->text, *figure);
    }
    const Literal* compilation = log_.config ? log_.config->value.find("compilation_config") : nullptr;
    const Literal* ends = compilation ? compilation->find("compile_ranges_endpoints") : nullptr;
    if (!has(kBatched) && ends && !ends->items.empty() && ends->items.back().type == Literal::Type::number)
      import_.add({std::string(kBatched), ends->items.back().text,
                   concat(name_, ":", log_.config->line, " compile_ranges_endpoints")});
    const LogFigure* share = log_.first(LogKey::utilization);
    if (share && !has("/deployment/gpu_memory_utilization")) {
      std::string text = share->text;
      while (text.find('.') != std::string::npos && (text.ends_with('0') || text.ends_with('.')))
        text.pop_back();
      add("/deployment/gpu_memory_utilization", text, *share);
    }
    if (log_.arguments || log_.config) assume_engine_defaults(import_, name_);
  }

  // "((3,192),(4,64))": bits and experts of each tier.
  void add_mixed() {
    const LogFigure* tiers = log_.first(LogKey::mixed_tiers);
    if (!tiers) return;
    if (log_.all(LogKey::mixed_tiers).size() > 1)
      import_.note(concat(from(*tiers), ": layers of other tiers are planned too; the first are imported"));
    const ParsedLiteral parsed = parse_literal(tiers->text);
    std::string json;
    i64 experts = 0;
    for (const Literal& tier : parsed.value.items) {
      i64 values[2] = {};
      if (tier.items.size() != 2 || !whole(tier.items[0].text, values[0]) ||
          !whole(tier.items[1].text, values[1]))
        return import_.fail(
            ErrorCode::invalid_value, Place{.source = path_, .line = tiers->line, .column = tiers->column},
            concat("tiers ", tiers->text, " are no (bits, experts) pairs"), "is the line whole?");
      json += concat(json.empty() ? "" : ", ", "{\"bits\": ", values[0], ", \"experts\": ", values[1], "}");
      experts += values[1];
    }
    add("/quant/tiers", concat("[", json, "]"), *tiers);
    add("/model/n_routed_experts", json_of(experts), *tiers, RowKind::imported, Rank::checkpoint, true);
    if (const LogFigure* form = log_.first(LogKey::mixed_form))
      add("/quant/mixed_form", json_of(std::string_view(form->text)), *form);
    const LogFigure* sliced = log_.first(LogKey::sliced_max_m);
    const ImportRow* tokens = find_row(import_, "/deployment/num_speculative_tokens");
    if (sliced) {
      add("/deployment/draft_is_exl3", "true", *sliced);
      const auto bits = log_.all(LogKey::trellis_bits);
      if (bits.size() == 1) add("/quant/bits", bits[0]->text, *bits[0]);
      return;
    }
    // Planning comes ahead of the profile: when that was printed, there was no other runtime.
    const LogFigure* planned = log_.first(LogKey::available_kv);
    if (planned && tokens && tokens->json != "0") add("/deployment/draft_is_exl3", "false", *planned);
    const std::pair<LogKey, std::string_view> variables[] = {
        {LogKey::mixed_decode_capacity, "VLLM_EXL3_TRELLIS_MAX_M"},
        {LogKey::mixed_block_m, "VLLM_EXL3_PREFILL_BLOCK_M"},
        {LogKey::mixed_prefill_capacity, "VLLM_EXL3_PREFILL_CAPACITY"}};
    add_variables(variables);
  }

  void add_sliced() {
    const LogFigure* line = log_.first(LogKey::sliced_max_m);
    if (!line) return;
    const std::pair<LogKey, std::string_view> variables[] = {
        {LogKey::sliced_min_m, "VLLM_EXL3_TRELLIS_MIN_M"},
        {LogKey::sliced_max_m, "VLLM_EXL3_TRELLIS_MAX_M"},
        {LogKey::sliced_block_m, "VLLM_EXL3_TRELLIS_BLOCK_M"},
        {LogKey::sliced_prefill_block_m, "VLLM_EXL3_PREFILL_BLOCK_M"},
        {LogKey::sliced_capacity, "VLLM_EXL3_PREFILL_CAPACITY"},
        {LogKey::sliced_chunk, "VLLM_EXL3_PREFILL_CHUNK"}};
    add_variables(variables);
    if (const LogFigure* topk = log_.first(LogKey::sliced_topk))
      add("/model/num_experts_per_tok", topk->text, *topk, RowKind::imported, Rank::checkpoint, true);
    const ImportRow* tokens = find_row(import_, "/deployment/num_speculative_tokens");
    if (!log_.first(LogKey::mixed_tiers) && tokens && tokens->json != "0")
      import_.note(
          concat(from(*line),
                 ": a draft of equal shape prints no line of its own; if its experts are EXL3 too, add --set "
                 "/deployment/draft_is_exl3=true"));
  }

  void add_variables(std::span<const std::pair<LogKey, std::string_view>> variables) {
    for (const auto& [key, name] : variables) {
      const auto figures = log_.all(key);
      if (figures.empty()) continue;
      add(concat("/deployment/env/", name), figures[0]->text, *figures[0]);
      if (figures.size() > 1)
        import_.note(concat(name, " has several values in ", name_, "; the first is imported"));
    }
  }

  void add_device() {
    const LogFigure* total = log_.first(LogKey::total_memory);
    if (const LogFigure* multiprocessors = log_.first(LogKey::sms))
      add("/device/sm_count", multiprocessors->text, *multiprocessors);
    if (total) {
      add("/device/total_memory", json_of(concat(total->text, " GiB")), *total, RowKind::measured);
      for (const KnownTotal& known : kTotals) {
        if (known.text == total->text)
          assume_device(known, concat("from ", total->text, " GiB total memory (", from(*total), ")"));
      }
      return;
    }
    assume_device_of_utilization();
  }

  // What PyTorch reports of the devices whose logs have been seen.
  struct KnownTotal {
    std::string_view text;  // GiB
    std::string_view device;
  };
  static constexpr KnownTotal kTotals[] = {{"95.01", "rtx-pro-6000-blackwell"}};

  void assume_device(const KnownTotal& known, const std::string& why) {
    moeplan::add_device(import_, std::string(known.device), Rank::assumed, RowKind::assumed,
                        concat(why, ": shipped ", known.device));
  }

  // A refused start prints no total, but the share of it that its graphs take: total = graphs / share.
  void assume_device_of_utilization() {
    const LogFigure* share = log_.first(LogKey::utilization);
    const LogFigure* without = log_.first(LogKey::equivalent_utilization);
    const LogFigure* graphs = log_.first(LogKey::graph_estimate);
    if (!share || !without || !graphs || !log_.first(LogKey::mixed_tiers)) return;
    const auto estimate = scaled_decimal(graphs->text, 1000);
    const auto from_share = scaled_decimal(share->text, 1'000'000);
    const auto to_share = scaled_decimal(without->text, 1'000'000);
    constexpr i64 kHalf = 50;  // of the fourth decimal
    constexpr i64 kMost = 1'000'000;
    if (!estimate || *estimate > kMost || !from_share || *from_share > kMost || !to_share ||
        *from_share - *to_share <= kHalf)
      return;
    const i64 ppm = *from_share - *to_share;
    for (const KnownTotal& known : kTotals) {
      const i64 thousandths = scaled_decimal(known.text, 1000).value_or(0);
      // The estimate is printed to 0.01 GiB.
      if (thousandths * (ppm - kHalf) <= (*estimate + 5) * 1'000'000 &&
          thousandths * (ppm + kHalf) >= (*estimate - 5) * 1'000'000)
        assume_device(known, concat("from graphs of ", graphs->text, " GiB that take ", share->text, " - ",
                                    without->text, " of its memory (", from(*without), ")"));
    }
  }

  void add_measured() {
    struct Row {
      std::string_view name;
      LogKey key;
      bool largest;  // of several ranks: the one that leaves least
    };
    constexpr Row kRows[] = {
        {"model_loading", LogKey::model_loading, true}, {"peak_activation", LogKey::peak_activation, true},
        {"non_torch", LogKey::non_torch, true},         {"graph_estimate", LogKey::graph_estimate, true},
        {"graph_actual", LogKey::graph_actual, true},   {"requested", LogKey::requested, false},
        {"available_kv", LogKey::available_kv, false},  {"free_memory", LogKey::free_memory, false},
        {"total_memory", LogKey::total_memory, false}};
    bool any = false;
    for (const Row& row : kRows) {
      const LogFigure* figure = row.largest ? log_.largest(row.key) : log_.smallest(row.key);
      if (!figure) continue;
      any = true;
      add(concat("/measured/", row.name), json_of(concat(figure->text, " GiB")), *figure, RowKind::measured);
      if (const auto count = log_.all(row.key).size(); count > 1)
        import_.note(concat(row.name, " has ", count, " values in ", name_, "; the ",
                            row.largest ? "largest" : "smallest", " is imported"));
    }
    if (const LogFigure* tokens = log_.smallest(LogKey::kv_tokens)) {
      any = true;
      add("/measured/kv_tokens", tokens->text, *tokens, RowKind::measured);
    }
    if (const LogFigure* disabled = log_.first(LogKey::graph_profiling_disabled))
      add("/measured/graph_profiling_disabled", "true", *disabled, RowKind::measured);
    if (any) import_.add({"/measured/source", json_of(name_), std::string(name_), RowKind::measured});
  }

  static bool whole(std::string_view text, i64& value) {
    if (text.empty() || text.size() > 9 || text.find_first_not_of("0123456789") != std::string_view::npos)
      return false;
    value = std::stoll(std::string(text));
    return true;
  }

  Import& import_;
  const EngineLog& log_;
  std::string_view path_, name_;
};

}  // namespace

void import_engine_log(Import& import, const EngineLog& log) {
  for (const Problem& problem : log.problems) {
    Problem named = problem;
    named.place.source = import.keep(log.name);
    import.problems.push_back(std::move(named));
  }
  for (const std::string& text : log.notes) import.note(concat(log.name, ": ", text));
  if (!log.problems.empty()) return;
  if (!log.arguments && !log.config) {
    const bool any = !log.figures.empty();
    return import.fail(ErrorCode::missing_field,
                       Place{.source = import.keep(log.name), .line = 1, .column = 1},
                       concat("no engine start in ", log.lines,
                              " lines: neither \"non-default args\" nor \"with "
                              "config\"",
                              any ? concat("; ", log.figures.size(), " figures without it") : std::string()),
                       "give the log from its beginning");
  }
  LogRows(import, log).add_all();
}

void import_log(Import& import, const std::string& path) {
  const auto log = read_engine_log(path);
  if (!log) {
    import.problems.push_back({log.error(), Place { import.keep(path), 0, 0, {}, 1 }});
    return;
  }
  import_engine_log(import, *log);
}

}  // namespace moeplan
