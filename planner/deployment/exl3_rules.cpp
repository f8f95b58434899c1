#include "planner/deployment/exl3_rules.hpp"

#include <algorithm>

#include "planner/core/text.hpp"
#include "planner/deployment/exl3_runtime.hpp"
#include "planner/moe/geometry.hpp"

namespace moeplan {
namespace {

struct Case {
  const Exl3Settings& settings;
  const EngineSettings& engine;
  const Deployment* deployment;  // null while only the engine section is judged
};

struct Breach {
  std::string_view level;
  std::string pointer;
  std::string message;
  std::string remedy;
};
using Breaches = std::vector<Breach>;

constexpr std::string_view kError = "error", kWarning = "warning", kNote = "note";

i64 rows_of_full_decode(const EngineSettings& engine) {
  return (1 + engine.num_speculative_tokens.value_or(0)) * engine.max_num_seqs.value_or(0);
}

void check_decode_order(const Case& c, Breaches& out) {
  const Exl3Settings& s = c.settings;
  if (s.decode_min_tokens <= s.decode_tokens) return;
  out.push_back({kError, environment_pointer("VLLM_EXL3_TRELLIS_MIN_M"),
                 concat("VLLM_EXL3_TRELLIS_MIN_M ", s.decode_min_tokens,
                        " is more than VLLM_EXL3_TRELLIS_MAX_M ", s.decode_tokens),
                 "the engine refuses to start with this"});
}

void check_capacity(const Case& c, Breaches& out) {
  const i64 scheduled = c.engine.max_num_batched_tokens;
  if (c.settings.prefill_tokens <= scheduled) return;
  out.push_back({kError, environment_pointer("VLLM_EXL3_PREFILL_CAPACITY"),
                 concat("VLLM_EXL3_PREFILL_CAPACITY must be at most max_num_batched_tokens ", scheduled,
                        ", got ", c.settings.prefill_tokens),
                 "the engine refuses to start with this"});
}

void check_parity_rows(const Case& c, Breaches& out) {
  const Exl3Settings& s = c.settings;
  const i64 eager = min_of(c.engine.max_num_batched_tokens, s.decode_min_tokens - 1);
  if (eager <= s.parity_rows) return;
  out.push_back(
      {kError, environment_pointer("VLLM_EXL3_PREFILL_CHUNK"),
       concat("steps of up to ", eager, " rows go to the parity path, which stages ", s.parity_rows),
       concat("raise VLLM_EXL3_PREFILL_CHUNK to ", eager, ", or lower VLLM_EXL3_TRELLIS_MIN_M")});
}

void check_capture_sizes(const Case& c, Breaches& out) {
  if (!c.engine.cudagraph_capture_sizes) return;
  const Exl3Settings& s = c.settings;
  const auto& sizes = *c.engine.cudagraph_capture_sizes;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const i64 size = sizes[i];
    const std::string pointer = concat("/deployment/cudagraph_capture_sizes/", i);
    const std::string window = concat(s.decode_min_tokens, "..", s.decode_tokens);
    const bool in_prefill =
        s.prefill_enabled && size > s.decode_tokens && size <= c.engine.max_num_batched_tokens;
    if (size >= s.decode_min_tokens && size <= s.decode_tokens) continue;
    if (in_prefill) {
      out.push_back({kWarning, pointer,
                     concat("a graph of ", size, " rows lies above the decode plan's window ", window,
                            " and captures the prefill plan"),
                     concat("raise VLLM_EXL3_TRELLIS_MAX_M to ", size, ", or drop the size")});
    } else {
      out.push_back({kError, pointer,
                     concat("a graph of ", size, " rows lies outside the decode plan's window ", window,
                            "; the parity path cannot be captured"),
                     "capture sizes have to lie in the window"});
    }
  }
}

void check_window(const Case& c, Breaches& out) {
  if (!c.engine.max_num_seqs) return;
  const i64 rows = rows_of_full_decode(c.engine);
  const std::string product = concat("(1 + ", c.engine.num_speculative_tokens.value_or(0), ") x ",
                                     *c.engine.max_num_seqs, " = ", rows, " rows");
  if (rows > c.settings.decode_tokens)
    out.push_back({kWarning, environment_pointer("VLLM_EXL3_TRELLIS_MAX_M"),
                   concat("a full decode step has ", product, ", above VLLM_EXL3_TRELLIS_MAX_M ",
                          c.settings.decode_tokens),
                   concat("raise it to ", rows, ", or lower max_num_seqs")});
  const auto& sizes = c.engine.cudagraph_capture_sizes;
  if (!sizes || sizes->empty()) return;
  const i64 largest = *std::ranges::max_element(*sizes);
  if (rows > largest)
    out.push_back({kWarning, "/deployment/cudagraph_capture_sizes",
                   concat("a full decode step has ", product, ", above the largest captured size ", largest),
                   concat("capture ", rows)});
}

void check_switch(const Case& c, Breaches& out) {
  const std::string* text = find_variable(c.engine.env, "VLLM_EXL3_PREFILL_TRELLIS");
  if (!text || *text == "0" || *text == "1") return;
  out.push_back({kWarning, environment_pointer("VLLM_EXL3_PREFILL_TRELLIS"),
                 concat("VLLM_EXL3_PREFILL_TRELLIS \"", *text,
                        "\" switches the prefill plan off: only \"1\" "
                        "switches it on"),
                 "write 1 or 0"});
}

void check_block_sizes(const Case& c, Breaches& out) {
  const std::pair<std::string_view, i64> blocks[] = {{"VLLM_EXL3_TRELLIS_BLOCK_M", c.settings.decode_block},
                                                     {"VLLM_EXL3_PREFILL_BLOCK_M", c.settings.prefill_block}};
  for (const auto& [name, block] : blocks) {
    if (block_size_index(block) >= 0) continue;
    out.push_back({kError, environment_pointer(name),
                   concat(name, " must be one of ", join(kBlockSizes, ", "), ", got ", block),
                   "the kernels have no other block"});
  }
}

void check_checkpoint(const Case& c, Breaches& out) {
  if (!c.deployment || !c.deployment->quant || !c.deployment->parallel) return;
  const auto sliced = c.deployment->quant->checkpoint_tp;
  if (!sliced || *sliced == c.deployment->parallel->tp) return;
  out.push_back({kError, "/quant/checkpoint_tp",
                 concat("the checkpoint is sliced for ", *sliced, " ranks, the engine runs ",
                        c.deployment->parallel->tp),
                 concat("run tp ", *sliced, ", or slice the checkpoint again")});
}

void check_mixed_prefill(const Case& c, Breaches& out) {
  if (!c.deployment || !c.deployment->quant || c.deployment->quant->tiers.empty()) return;
  if (c.settings.prefill_switch || c.engine.max_num_batched_tokens <= c.settings.decode_tokens) return;
  out.push_back({kError, environment_pointer("VLLM_EXL3_PREFILL_TRELLIS"),
                 "mixed bit widths without a prefill plan fail at the first step beyond the decode plan",
                 "write VLLM_EXL3_PREFILL_TRELLIS 1, or leave it out"});
}

void check_draft(const Case& c, Breaches& out) {
  if (!c.deployment || !has_exl3_draft(c.engine)) return;
  const auto runtimes = exl3_runtimes(*c.deployment);
  if (!runtimes) return;
  for (const Exl3Runtime& runtime : *runtimes) {
    if (!runtime.is_draft) continue;
    out.push_back({kNote, "/deployment/draft_is_exl3",
                   concat("the draft owns a second runtime of ", runtime.bytes(),
                          " B a rank; a start log prints equal runtimes as one line"),
                   ""});
  }
}

struct RuleRow {
  Exl3Rule rule;
  bool stops_engine;
  void (*check)(const Case&, Breaches&);
};

constexpr RuleRow kRows[] = {
    {{"exl3-decode-order", "MIN_M is at most MAX_M"}, true, check_decode_order},
    {{"exl3-prefill-capacity", "the prefill capacity is at most max_num_batched_tokens"},
     true,
     check_capacity},
    {{"exl3-capture-sizes", "every captured size lies in MIN_M..MAX_M"}, false, check_capture_sizes},
    {{"exl3-decode-window", "a full decode step fits the decode plan and a captured graph"},
     false,
     check_window},
    {{"exl3-prefill-switch", "PREFILL_TRELLIS is 0 or 1"}, false, check_switch},
    {{"exl3-block-size", "block sizes are ones the kernels have"}, false, check_block_sizes},
    {{"exl3-checkpoint-tp", "the checkpoint is sliced for the engine's ranks"}, false, check_checkpoint},
    {{"exl3-parity-rows", "the parity path stages every step below MIN_M"}, true, check_parity_rows},
    {{"exl3-mixed-prefill", "mixed bit widths have their prefill plan"}, false, check_mixed_prefill},
    {{"exl3-draft-runtime", "no second runtime is hidden behind one log line"}, false, check_draft},
};

Finding finding_of(const Exl3Rule& rule, const Breach& breach) {
  return {std::string(rule.id), std::string(breach.level), breach.pointer, breach.message, breach.remedy};
}

}  // namespace

std::span<const Exl3Rule> exl3_rules() {
  static const auto rules = [] {
    std::vector<Exl3Rule> all;
    for (const RuleRow& row : kRows) all.push_back(row.rule);
    return all;
  }();
  return rules;
}

std::vector<Finding> exl3_findings(const Deployment& deployment) {
  std::vector<Finding> findings;
  if (!deployment.engine) return findings;
  const auto settings = parse_exl3_settings(*deployment.engine);
  if (!settings) return findings;
  const Case c{*settings, *deployment.engine, &deployment};
  for (const RuleRow& row : kRows) {
    Breaches breaches;
    row.check(c, breaches);
    for (const Breach& breach : breaches) findings.push_back(finding_of(row.rule, breach));
  }
  return findings;
}

std::optional<Finding> exl3_refusal(const Exl3Settings& settings, const EngineSettings& engine) {
  const Case c{settings, engine, nullptr};
  for (const RuleRow& row : kRows) {
    if (!row.stops_engine) continue;
    Breaches breaches;
    row.check(c, breaches);
    if (!breaches.empty()) return finding_of(row.rule, breaches.front());
  }
  return std::nullopt;
}

}  // namespace moeplan
