// moeplan capacity: does the deployment fit, what is left for the KV cache, and which settings buy how much?
#include <cstdio>

#include "cli/commands/engine_note.hpp"
#include "cli/commands/finish.hpp"
#include "cli/commands/gpu_table.hpp"
#include "cli/commands/options.hpp"
#include "cli/log.hpp"
#include "cli/render/text.hpp"
#include "planner/core/limits.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/exl3_rules.hpp"
#include "planner/deployment/fit.hpp"
#include "planner/deployment/indexer_budget.hpp"
#include "runtime/nvml.hpp"

namespace moeplan {
namespace {

// "1,234", "1,234..5,678", "at most 5,678", "not stated".
template <class Show>
std::string bounds_text(std::optional<i64> lo, std::optional<i64> hi, Show show) {
  if (lo && hi) return *lo == *hi ? show(*lo) : concat(show(*lo), "..", show(*hi));
  if (hi) return concat("at most ", show(*hi));
  if (lo && *lo != 0) return concat("at least ", show(*lo));
  return "not stated";
}

// A number with sign, for gains and costs.
std::string signed_text(i64 number, std::string (*show)(i64)) {
  return number > 0 ? concat("+", show(number)) : show(number);
}

// "0.9134": parts per million as the engine takes a utilisation, to four decimals.
std::string utilization_text(i64 ppm, bool up) {
  const i64 steps = up ? ceil_div(ppm, 100) : ppm / 100;
  std::string digits = std::to_string(steps % 10'000);
  digits.insert(0, 4 - digits.size(), '0');
  return concat(steps / 10'000, ".", digits);
}

struct Rank {
  std::string key;    // prefix of its columns' keys
  std::string title;  // over its columns
  const MemoryBudget* budget;
};

std::vector<Rank> ranks_of(std::span<const MemoryBudget> budgets) {
  std::vector<Rank> ranks;
  for (std::size_t i = 0; i < budgets.size(); ++i) {
    const bool single = budgets[i].rank.empty();
    ranks.push_back(
        {single ? "" : concat("rank_", i, "_"), single ? "" : concat(budgets[i].rank, " "), &budgets[i]});
  }
  return ranks;
}

// A table of budget rows: one group of columns a rank.
Table waterfall_table(std::string key, std::string title, std::span<const MemoryBudget> budgets,
                      bool with_tokens, std::vector<BudgetRow> (*rows_of)(const MemoryBudget&)) {
  Table table;
  table.key = std::move(key);
  table.title = std::move(title);
  table.columns = {{"name", ""}};
  const auto ranks = ranks_of(budgets);
  for (const Rank& rank : ranks) {
    table.columns.push_back({concat(rank.key, "lo"), "", ColumnKind::count, Audience::programs});
    table.columns.push_back({concat(rank.key, "hi"), "", ColumnKind::count, Audience::programs});
    // Two ranks side by side leave room for one unit.
    if (ranks.size() == 1)
      table.columns.push_back({concat(rank.key, "bytes"), "BYTES", ColumnKind::count, Audience::people});
    table.columns.push_back(
        {concat(rank.key, "mib"), concat(rank.title, "MiB"), ColumnKind::count, Audience::people});
  }
  if (with_tokens) table.columns.push_back({"kv_tokens", "KV TOKENS", ColumnKind::count});
  table.columns.push_back({"kind", "SOURCE"});
  table.columns.push_back({"source", ""});

  std::vector<std::vector<BudgetRow>> columns;
  for (const Rank& rank : ranks) columns.push_back(rows_of(*rank.budget));
  for (std::size_t r = 0; r < columns[0].size(); ++r) {
    const BudgetRow& first = columns[0][r];
    Row row;
    row.cells.push_back(first.name);
    for (const auto& column : columns) {
      const ByteBounds& bytes = column[r].bytes;
      row.cells.push_back(optional_cell(bytes.lo));
      row.cells.push_back(optional_cell(bytes.hi));
      if (ranks.size() == 1) row.cells.push_back(bounds_text(bytes.lo, bytes.hi, grouped));
      row.cells.push_back(bounds_text(bytes.lo, bytes.hi, mebibytes));
    }
    // What a derived, exact term costs; a balance is no cost.
    if (with_tokens)
      row.cells.push_back(first.bytes.is_exact() && first.kind == SourceKind::derived && r > 0 &&
                                  r + 1 < columns[0].size()
                              ? Cell(tokens_of_bytes(budgets[0].kv, *first.bytes.lo))
                              : Cell());
    row.cells.push_back(std::string(name_of(first.kind)));
    row.cells.push_back(first.source);
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::vector<BudgetRow> inside_rows(const MemoryBudget& budget) {
  std::vector<BudgetRow> rows{budget.requested};
  rows.insert(rows.end(), budget.inside.begin(), budget.inside.end());
  rows.push_back(budget.available_kv);
  return rows;
}

std::vector<BudgetRow> after_rows(const MemoryBudget& budget) {
  std::vector<BudgetRow> rows{budget.margin};
  rows.insert(rows.end(), budget.after.begin(), budget.after.end());
  if (!budget.after.empty())
    rows.push_back({"margin left", budget.margin_left, budget.margin.kind, "what the rows above leave"});
  return rows;
}

Table fit_table(std::span<const FitCheck> checks) {
  Table table;
  table.key = "checks";
  table.title = "DOES IT FIT";
  table.columns = {{"question", ""},
                   {"answer", "ANSWER"},
                   {"spare_lo", "", ColumnKind::count, Audience::programs},
                   {"spare_hi", "", ColumnKind::count, Audience::programs},
                   {"spare", "SPARE MiB", ColumnKind::count, Audience::people}};
  for (const FitCheck& c : checks)
    table.rows.push_back({{c.question, std::string(name_of(c.answer)), optional_cell(c.spare.lo),
                           optional_cell(c.spare.hi), bounds_text(c.spare.lo, c.spare.hi, mebibytes)},
                          {}});
  return table;
}

// Changes that a deployment may meet without anybody setting them.
Table what_if_table(const Deployment& d, const MemoryBudget& budget) {
  Table table;
  table.key = "what_if";
  table.title = "WHAT IF";
  table.columns = {{"change", ""},
                   {"bytes", "BYTES", ColumnKind::bytes},
                   {"kv_tokens", "KV TOKENS", ColumnKind::count},
                   {"effect", "EFFECT"}};
  const auto add = [&](std::string change, i64 bytes, bool costs_kv, std::string effect) {
    table.rows.push_back({{std::move(change), bytes,
                           costs_kv ? Cell(tokens_of_bytes(budget.kv, bytes)) : Cell(), std::move(effect)},
                          {}});
  };
  const auto scratch_with = [&](auto change) {
    Deployment other = d;
    change(other);
    return scratch_bytes_of(other);
  };
  if (d.engine->num_speculative_tokens.value_or(0) > 0 && !has_exl3_draft(*d.engine)) {
    const auto scratch = scratch_with([](Deployment& other) { other.engine->draft_is_exl3 = true; });
    if (scratch)
      add("the draft's experts are EXL3: a runtime of its own", budget.scratch_bytes() - *scratch, true,
          "inside the profile");
  }
  const i64 scheduled = d.engine->max_num_batched_tokens;
  const auto now = growing_bytes_of(d);
  for (i64 tokens : {scheduled * 2, scheduled / 2}) {
    if (tokens < 1 || tokens > kMaxTokens) continue;
    Deployment other = d;
    other.engine->max_num_batched_tokens = tokens;
    const auto then = growing_bytes_of(other);
    if (now && then && *then != *now)
      add(concat("max_num_batched_tokens ", grouped(tokens)), *now - *then, true,
          "inside the profile, activation aside");
  }
  for (const Exl3Runtime& runtime : budget.runtimes) {
    if (runtime.is_draft || runtime.prefill_tokens == 0) continue;
    const i64 missed =
        runtime.form == RuntimeForm::rank_sliced ? logged_arena_bytes(runtime) : runtime.bytes();
    const ByteBounds left = budget.margin_left - ByteBounds(exactly(missed));
    add("a cache miss plans the prefill buffers again while serving", -missed, false,
        left.lo || left.hi ? concat(left.lo && *left.lo >= 0  ? "survives, MiB of margin left: "
                                    : left.hi && *left.hi < 0 ? "out of memory, MiB of margin left: "
                                                              : "MiB of margin left: ",
                                    bounds_text(left.lo, left.hi, mebibytes))
                           : std::string("out of the margin, which is not stated"));
  }
  return table;
}

Table choices_table(std::span<const CapacityChoice> choices, i64 configured) {
  Table table;
  table.key = "prefill_capacities";
  table.title = "SET THIS";
  table.columns = {{"capacity", "VLLM_EXL3_PREFILL_CAPACITY", ColumnKind::count},
                   {"scratch_bytes", "", ColumnKind::count, Audience::programs},
                   {"gained_bytes", "GAINED BYTES", ColumnKind::bytes},
                   {"gained_kv_tokens", "", ColumnKind::count, Audience::programs},
                   {"tokens", "KV TOKENS", ColumnKind::count, Audience::people},
                   {"launches_per_layer", "LAUNCHES/LAYER", ColumnKind::count},
                   {"tail_rows", "TAIL ROWS", ColumnKind::count},
                   {"remark", "", ColumnKind::text, Audience::people}};
  for (const CapacityChoice& c : choices)
    table.rows.push_back(
        {{c.capacity, c.scratch_bytes, c.gained_bytes, c.gained_tokens, signed_text(c.gained_tokens, grouped),
          c.full_step.launches, c.full_step.tail, std::string(c.capacity == configured ? "configured" : "")},
         {}});
  return table;
}

Table largest_table(std::span<const LargestSetting> settings) {
  Table table;
  table.key = "largest";
  table.title = "LARGEST THAT FITS";
  table.columns = {{"setting", "SETTING"},
                   {"now", "", ColumnKind::count, Audience::programs},
                   {"certain", "", ColumnKind::count, Audience::programs},
                   {"possible", "", ColumnKind::count, Audience::programs},
                   {"unit", "", ColumnKind::text, Audience::programs},
                   {"now_text", "NOW", ColumnKind::count, Audience::people},
                   {"certain_text", "FITS", ColumnKind::count, Audience::people},
                   {"possible_text", "AT MOST", ColumnKind::count, Audience::people},
                   {"limit", "DECIDED BY"}};
  for (const LargestSetting& s : settings) {
    const bool least = s.setting.ends_with("at least");
    const auto text = [&](std::optional<i64> value, bool up) {
      if (!value) return std::string("-");
      return s.is_ppm ? utilization_text(*value, up) : grouped(*value);
    };
    table.rows.push_back({{s.setting, optional_cell(s.now), optional_cell(s.certain),
                           optional_cell(s.possible), std::string(s.is_ppm ? "ppm" : ""), text(s.now, false),
                           text(s.certain, least), text(s.possible, least), s.limit},
                          {}});
  }
  return table;
}

Table buffers_table(const MemoryBudget& budget) {
  Table table;
  table.key = "buffers";
  table.title = "BUFFERS OUTSIDE THE ARENAS";
  table.columns = {{"part", "PART"},   {"name", "TENSOR"},     {"dtype", "DTYPE"},
                   {"shape", "SHAPE"}, {"formula", "FORMULA"}, {"bytes", "BYTES", ColumnKind::bytes}};
  for (const Exl3Runtime& runtime : budget.runtimes) {
    for (const RuntimePart& part : runtime.parts) {
      for (const Buffer& b : part.buffers) {
        const auto dims = std::span(b.shape.dims, static_cast<std::size_t>(b.shape.rank));
        table.rows.push_back({{part.name, std::string(b.name), std::string(b.dtype),
                               std::vector<i64>(dims.begin(), dims.end()), std::string(b.formula), b.bytes},
                              {}});
      }
    }
  }
  return table;
}

Table keys_table(const Deployment& d, const MemoryBudget& budget) {
  Table table;
  table.key = "runtime_keys";
  table.title = "RUNTIME CACHE KEYS";
  table.columns = {{"runtime", "RUNTIME"}, {"form", "FORM"}, {"field", "FIELD"}, {"value", "VALUE"}};
  for (const Exl3Runtime& runtime : budget.runtimes) {
    for (const auto& [field, value] : exl3_runtime_key(d, runtime))
      table.rows.push_back({{std::string(runtime.is_draft ? "draft" : "target"),
                             std::string(name_of(runtime.form)), field, value},
                            {}});
  }
  return table;
}

// "65.6": tokens a MiB is worth, in tenths rounded to nearest.
std::string tokens_per_mebibyte(const KvCache& kv) {
  const i64 tenths = ((i64{20} << 20) * kv.dcp + kv.bytes_per_token()) / (2 * kv.bytes_per_token());
  return concat(grouped(tenths / 10), ".", tenths % 10);
}

std::string kv_note(const KvCache& kv) {
  std::string parts = kv.declared_token_bytes > 0
                          ? kv.description
                          : concat(kv.layers, " layers x ", kv.record_bytes, " B (", kv.description, ")");
  if (kv.index_layers > 0)
    parts += concat(" + ", kv.index_layers, " x ", kv.index_record_bytes, " B of indexer keys");
  return concat("KV: ", grouped(kv.bytes_per_token()), " B a token and rank, ", tokens_per_mebibyte(kv),
                " tokens/MiB at DCP ", kv.dcp, ": ", parts);
}

std::string verdict_of(const Deployment& d, std::span<const MemoryBudget> budgets, const MemoryBudget& worst,
                       Fit fit) {
  std::string verdict = d.name ? concat(*d.name, ": ") : std::string();
  verdict += fit == Fit::fits ? "FITS" : fit == Fit::does_not_fit ? "DOES NOT FIT" : "UNDECIDED";
  const BlockBounds blocks = kv_blocks(worst);
  if (blocks.lo || blocks.hi) {
    const i64 longest = d.engine->max_model_len.value_or(worst.kv.request_tokens_per_block());
    const auto tokens = [&](std::optional<i64> count) -> std::optional<i64> {
      return count ? std::optional(kv_tokens(worst.kv, *count, longest)) : std::nullopt;
    };
    verdict +=
        concat(" · KV cache of ", bounds_text(tokens(blocks.lo), tokens(blocks.hi), grouped), " tokens");
    if (worst.measured.available_kv && worst.measured.kv_tokens) {
      const TokenRange derived = kv_tokens(worst.kv, *worst.measured.available_kv, longest);
      verdict += concat(" (", bounds_text(std::optional(derived.lo), std::optional(derived.hi), grouped),
                        " derived from the printed memory, ", grouped(*worst.measured.kv_tokens), " logged)");
    }
    if (d.engine->max_model_len) verdict += concat(", max_model_len ", grouped(*d.engine->max_model_len));
  } else {
    verdict += " · KV cache not stated";
  }
  verdict += worst.moe_modelled
                 ? concat(" · ", grouped(worst.scratch_bytes()), " B (", mebibytes(worst.scratch_bytes()),
                          " MiB) of MoE scratch per rank, parity staging in it")
                 : std::string(" · MoE workspace not modelled");
  verdict += concat(" · contract ", d.contract->id);
  if (budgets.size() > 1) verdict += concat(" · bottleneck ", worst.rank);
  return verdict;
}

std::string what_is_missing(const MemoryBudget& budget) {
  std::vector<std::string> remedies;
  const auto note = [&](const BudgetRow& row) {
    if (row.kind == SourceKind::not_stated && row.source.starts_with("add "))
      remedies.push_back(row.source.substr(4));
  };
  note(budget.requested);
  for (const BudgetRow& row : budget.inside) note(row);
  note(budget.margin);
  if (remedies.empty()) return "";
  return concat("not stated, so open in the figures above: add ", join(remedies, "; "));
}

// This machine's GPU against what the engine would request of it.
FitCheck free_memory_check(std::size_t index, const GpuMemory& gpu, const MemoryBudget& budget) {
  const ByteBounds spare = ByteBounds(exactly(gpu.free_bytes)) - budget.requested.bytes;
  return {concat("GPU ", index, " here, ", gpu.name, ": free memory covers what the engine requests"),
          fit_of(spare), spare};
}

Result<Report> capacity_report(const Deployment& d, const CapacityOptions& options,
                               std::span<const GpuMemory> gpus) {
  const auto made = memory_budgets(d, indexer_budget_extras(d));
  if (!made) return made.error();
  const std::vector<MemoryBudget>& budgets = *made;
  const MemoryBudget& worst = budgets[bottleneck_rank(budgets)];

  std::vector<FitCheck> checks;
  for (const MemoryBudget& budget : budgets) {
    for (FitCheck& c : fit_checks(d, budget)) {
      if (!budget.rank.empty()) c.question = concat(budget.rank, ": ", c.question);
      checks.push_back(std::move(c));
    }
  }
  for (std::size_t i = 0; i < gpus.size(); ++i) checks.push_back(free_memory_check(i, gpus[i], worst));
  const Fit fit = overall(checks);
  Report report;
  report.schema = "moeplan.capacity/1";
  report.verdict = verdict_of(d, budgets, worst, fit);
  report.answered_no = fit == Fit::does_not_fit;
  report.facts = {{"name", d.name ? Cell(*d.name) : Cell()},
                  {"contract", std::string(d.contract->id)},
                  {"fit", std::string(name_of(fit))},
                  {"moe_modelled", worst.moe_modelled},
                  {"bottleneck", worst.rank.empty() ? Cell() : Cell(worst.rank)}};
  const BlockBounds blocks = kv_blocks(worst);
  const i64 longest = d.engine->max_model_len.value_or(worst.kv.request_tokens_per_block());
  const auto tokens = [&](std::optional<i64> count) {
    return count ? Cell(kv_tokens(worst.kv, *count, longest)) : Cell();
  };
  report.totals = {
      {"scratch_bytes", worst.moe_modelled ? Cell(worst.scratch_bytes()) : Cell()},
      {"kv_bytes_lo", optional_cell(worst.available_kv.bytes.lo)},
      {"kv_bytes_hi", optional_cell(worst.available_kv.bytes.hi)},
      {"kv_blocks_lo", optional_cell(blocks.lo)},
      {"kv_blocks_hi", optional_cell(blocks.hi)},
      {"kv_tokens_lo", tokens(blocks.lo)},
      {"kv_tokens_hi", tokens(blocks.hi)},
      {"kv_bytes_per_token", worst.kv.bytes_per_token()},
      {"kv_page_bytes", worst.kv.page_bytes()},
      {"kv_bytes_needed",
       d.engine->max_model_len ? Cell(needed_for_one_request(worst.kv, *d.engine->max_model_len)) : Cell()}};
  report.tables.push_back(
      waterfall_table("inside_profile", "INSIDE THE PROFILE (costs KV)", budgets, true, inside_rows));
  report.tables.push_back(
      waterfall_table("after_profile", "AFTER THE PROFILE (costs margin)", budgets, false, after_rows));
  report.tables.push_back(fit_table(checks));
  if (worst.moe_modelled) {
    report.tables.push_back(what_if_table(d, worst));
    const auto choices = prefill_capacity_choices(d, worst);
    if (!choices) return choices.error();
    const auto settings = parse_exl3_settings(*d.engine);
    if (!choices->empty()) report.tables.push_back(choices_table(*choices, settings->prefill_tokens));
    report.findings = exl3_findings(d);
  }
  for (const MemoryBudget& budget : budgets) {
    for (Finding& finding : budget_findings(budget)) report.findings.push_back(std::move(finding));
  }
  report.tables.push_back(largest_table(largest_settings(d, worst)));
  if (options.list_buffers && worst.moe_modelled) {
    report.tables.push_back(buffers_table(worst));
    report.tables.push_back(keys_table(d, worst));
  }
  if (!gpus.empty()) report.tables.push_back(gpu_table("devices", "THIS MACHINE", gpus));
  report.notes.push_back(kv_note(worst.kv));
  report.notes.push_back(concat("token figures of single rows are exact to one block of ",
                                worst.kv.request_tokens_per_block(), " tokens"));
  if (worst.kv.other_record)
    report.notes.push_back(concat("the static-calibrated mode of nvfp4_ds_mla stores ",
                                  *worst.kv.other_record, " B: state kv_record_bytes where it runs"));
  if (!worst.moe_modelled)
    report.notes.push_back(
        "the workspaces of MoE and indexer are not modelled for this engine path: they are part of the peak "
        "activation, and no total here "
        "contains it unless that is stated");
  add_engine_note(report, d);
  if (auto missing = what_is_missing(worst); !missing.empty()) report.notes.push_back(std::move(missing));
  return report;
}

}  // namespace

ExitCode run_capacity(const CapacityOptions& options) {
  std::vector<GpuMemory> gpus;
  if (options.probe) {
    auto probed = probe_gpus();
    if (const auto* reason = std::get_if<std::string>(&probed)) {
      std::fprintf(stderr, "error[no_device]: %s\n", printable(*reason).c_str());
      return ExitCode::no_device;
    }
    gpus = std::get<0>(std::move(probed));
  }
  std::vector<std::unique_ptr<Config>> configs;  // places in problems point into them
  std::vector<Report> reports;
  std::vector<Problem> problems;
  for (const std::string& path : options.configs.paths) {
    configs.push_back(read_config(path, options.configs.overrides));
    Config& config = *configs.back();
    log_info(concat("read ", config.name, ": ", config.text.size(), " bytes"));
    if (config.problems.empty()) {
      auto answer = capacity_report(config.deployment, options, gpus);
      if (answer) {
        locate_findings(*answer, config);
        reports.push_back(std::move(*answer));
      } else {
        config.add(answer.error());
      }
    }
    problems.insert(problems.end(), config.problems.begin(), config.problems.end());
  }
  return finish(reports, problems, options.configs.report);
}

}  // namespace moeplan
