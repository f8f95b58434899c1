#include "cli/commands/validate_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>

#include "cli/commands/covered_plans.hpp"
#include "cli/commands/skip.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/launch_findings.hpp"

namespace moeplan {
namespace {

std::string figure(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", value);
  return text;
}

// Calls visit(measurement) for every launch of a plan.
template <class Visit>
void for_each_launch(const ValidatedPlan& plan, const Visit& visit) {
  for (const auto* measurements : {&plan.packed, &plan.strict}) {
    for (const Measurement& measurement : *measurements) visit(measurement);
  }
}

i64 launches_of(const ValidatedPlan& plan) { return std::ssize(plan.packed) + std::ssize(plan.strict); }

OutputDifference worst_of(const ValidatedPlan& plan) {
  OutputDifference worst;
  for_each_launch(plan, [&](const Measurement& m) { merge(worst, m.output); });
  return worst;
}

// One finding a check that fails, with the first launch that does.
std::optional<Finding> failure_of(const ValidatedPlan& plan, ValidationCheck check) {
  std::string first;
  i64 launches = 0;
  for_each_launch(plan, [&](const Measurement& m) {
    for (const ValidationFailure& failure : judge(m).failures) {
      if (failure.check != check || launches++ > 0) continue;
      first = concat(m.tokens, m.tokens == 1 ? " token, " : " tokens, ", m.routing, ", block ", m.block, ", ",
                     name_of(m.mode), " guards: ", failure.text);
    }
  });
  if (launches == 0) return std::nullopt;
  return Finding{std::string(name_of(check)), "error", plan.pointer,
                 concat(plan_name(plan.id), ": ", grouped(launches),
                        launches == 1 ? " launch fails, with " : " launches fail, first with ", first),
                 ""};
}

// What was checked of a plan, and a finding for what failed.
void add_checks(const ValidatedPlan& plan, Report& report) {
  const auto check = [&](std::string_view what, const std::optional<Finding>& failure,
                         std::string skipped = "") {
    const std::string name = concat(plan.id, ": ", what);
    auto made = std::ranges::find(report.checks, name, &ReportCheck::name);
    if (made == report.checks.end())
      made = report.checks.insert(made, {.name = name, .skipped = std::move(skipped)});
    if (!failure) return;
    made->findings.push_back(report.findings.size());
    report.findings.push_back(*failure);
  };
  for (const Finding& finding : plan.findings) check(finding.rule, finding);
  for (std::size_t i = 0; i < std::size(kValidationChecks); ++i)
    check(kValidationChecks[i], failure_of(plan, static_cast<ValidationCheck>(i)),
          launches_of(plan) == 0 ? "nothing was run" : "");
  for (const Shrink& shrink : plan.shrinks) {
    const std::string what = concat("shrink ", shrink.tensor);
    switch (shrink.outcome()) {
      case ShrinkOutcome::caught:
        check(what, std::nullopt);
        break;
      case ShrinkOutcome::missed:
        check(what, Finding{"shrink", "error", plan.pointer,
                            concat(plan_name(plan.id), " with ", shrink.tensor, " ", shrink.taken_bytes,
                                   " bytes shorter: ", shrink.text()),
                            ""});
        break;
      case ShrinkOutcome::not_observable:
        check(what, std::nullopt, shrink.text());
        break;
    }
  }
}

// "model.layers.3.mlp.experts, rank 0 of 4, 3 bits"
std::string text_of(const LayerSource& weights) {
  return concat(weights.module, ", rank ", weights.rank, " of ", weights.ranks, ", ", weights.bits, " bits");
}

Table plans_table(const std::vector<ValidatedPlan>& plans) {
  Table table;
  table.key = "plans";
  table.columns = {{"id", "PLAN"},
                   {"capacity", "CAPACITY", ColumnKind::count},
                   {"planned_sms", "PLANNED FOR SMs", ColumnKind::count},
                   {"planned_bytes", "PLANNED", ColumnKind::bytes},
                   {"executed_sms", "RUN WITH SMs", ColumnKind::count},
                   {"executed_bytes", "ARENA", ColumnKind::bytes},
                   {"launches", "LAUNCHES", ColumnKind::count},
                   {"launches_left_out", "LEFT OUT", ColumnKind::count},
                   {"relative_l2", "ERROR"},
                   {"largest_l2", "OF"},
                   {"one_minus_cosine", "1 - COSINE"},
                   {"bits", "BITS", ColumnKind::count},
                   {"weights_rank", "", ColumnKind::count, Audience::programs},
                   {"weights_ranks", "", ColumnKind::count, Audience::programs},
                   {"weights", "WEIGHTS"},
                   {"valid", "VALID"}};
  for (const ValidatedPlan& plan : plans) {
    const OutputDifference worst = worst_of(plan);
    table.rows.push_back(
        {{plan.id, plan.capacity, plan.planned_sms, plan.planned_bytes, plan.executed_sms,
          plan.executed_bytes, launches_of(plan), plan.launches_left_out, figure(worst.relative_l2),
          figure(plan.tolerance.largest_l2), figure(1 - worst.cosine), optional_cell(plan.bits),
          plan.weights ? Cell(plan.weights->rank) : Cell(), plan.weights ? Cell(plan.weights->ranks) : Cell(),
          plan.weights ? text_of(*plan.weights) : std::string("made up"), plan.is_valid()},
         {}});
  }
  return table;
}

std::string use_text(const HighWater& use) {
  if (use.end_touched == 0) return "never touched";
  const bool is_full = use.end_touched == use.planned_bytes;
  if (use.first_touched == 0) return is_full ? "to its end" : "";
  const std::string from = concat("byte ", grouped(use.first_touched));
  return is_full ? concat("to its end, from ", from) : concat("not before ", from);
}

Table tensors_table(const std::vector<ValidatedPlan>& plans) {
  Table table;
  table.key = "tensors";
  table.title = "the most that any launch touched of each tensor";
  table.columns = {{"plan", "PLAN"},
                   {"tensor", "TENSOR"},
                   {"planned_bytes", "PLANNED", ColumnKind::count},
                   {"touched_bytes", "TOUCHED", ColumnKind::count},
                   {"slack_bytes", "SLACK", ColumnKind::count},
                   {"use", ""}};
  for (const ValidatedPlan& plan : plans) {
    for (const HighWater& use : high_water_of(plan.packed))
      table.rows.push_back({{plan.id, use.tensor, use.planned_bytes, use.end_touched,
                             use.planned_bytes - use.end_touched, use_text(use)},
                            {}});
  }
  return table;
}

// What all routings at one live count came to.
struct LiveCount {
  GuardMode mode{};
  i64 tokens = 0;
  i64 block = 0;
  std::vector<std::string> routings;
  std::vector<std::string> failed;
  OutputDifference output;
};

Table live_counts_table(const std::vector<ValidatedPlan>& plans) {
  Table table;
  table.key = "live_counts";
  table.title = concat("checks of each live token count: ", join(kValidationChecks, ", "));
  table.columns = {{"plan", "PLAN"},
                   {"guards", "GUARDS"},
                   {"tokens", "TOKENS", ColumnKind::count},
                   {"block_m", "BLOCK", ColumnKind::count},
                   {"relative_l2", "ERROR"},
                   {"worst_row_l2", "WORST ROW"},
                   {"one_minus_cosine", "1 - COSINE"},
                   {"passes", "", ColumnKind::text, Audience::programs},
                   {"failed", "", ColumnKind::text, Audience::programs},
                   {"checks", "CHECKS", ColumnKind::text, Audience::people},
                   {"routings", "ROUTINGS"}};
  for (const ValidatedPlan& plan : plans) {
    std::vector<LiveCount> counts;
    for_each_launch(plan, [&](const Measurement& m) {
      auto place = std::ranges::find_if(counts, [&](const LiveCount& known) {
        return known.mode == m.mode && known.tokens == m.tokens && known.block == m.block;
      });
      if (place == counts.end())
        place = counts.insert(place, {.mode = m.mode, .tokens = m.tokens, .block = m.block});
      LiveCount& count = *place;
      count.routings.push_back(m.routing);
      merge(count.output, m.output);
      for (const ValidationFailure& failure : judge(m).failures) {
        const std::string name(name_of(failure.check));
        if (std::ranges::find(count.failed, name) == count.failed.end()) count.failed.push_back(name);
      }
    });
    for (const LiveCount& count : counts) {
      const std::string failed = join(count.failed, ", ");
      table.rows.push_back(
          {{plan.id, std::string(name_of(count.mode)), count.tokens, count.block,
            figure(count.output.relative_l2), figure(count.output.worst_row_l2),
            figure(1 - count.output.cosine), failed.empty(), failed,
            failed.empty() ? std::string("pass") : concat("FAIL: ", failed), join(count.routings, ", ")},
           {}});
    }
  }
  return table;
}

constexpr std::string_view kOutcomes[] = {"caught", "missed", "not observable"};

Table shrinks_table(const std::vector<ValidatedPlan>& plans) {
  Table table;
  table.key = "shrinks";
  table.title = "each tensor without its last element";
  table.columns = {{"plan", "PLAN"},
                   {"shape", "SHAPE"},
                   {"tensor", "TENSOR"},
                   {"taken_bytes", "TAKEN", ColumnKind::count},
                   {"outcome", "", ColumnKind::text, Audience::programs},
                   {"refused", "", ColumnKind::text, Audience::programs},
                   {"guard_hit", "", ColumnKind::text, Audience::programs},
                   {"how", "WHAT HAPPENED"}};
  for (const ValidatedPlan& plan : plans) {
    for (const Shrink& shrink : plan.shrinks)
      table.rows.push_back({{plan.id, plan.shrunk, shrink.tensor, shrink.taken_bytes,
                             std::string(kOutcomes[static_cast<int>(shrink.outcome())]),
                             !shrink.refusal.empty(), !shrink.guard.empty(), shrink.text()},
                            {}});
  }
  return table;
}

std::string sms_text(i64 sms) { return concat(grouped(sms), " SMs"); }

// "emulating 188 SMs", or "planned for 188 SMs, executed with 132, both sized".
std::string profile_text(const ValidationMachine& machine, const std::vector<ValidatedPlan>& plans) {
  if (plans.empty()) return sms_text(machine.gpu_sms);
  const ValidatedPlan& plan = plans.front();
  if (machine.is_emulating)
    return concat(sms_text(machine.gpu_sms), " emulating ", sms_text(plan.executed_sms));
  if (plan.planned_sms == plan.executed_sms) return sms_text(machine.gpu_sms);
  return concat("planned for ", sms_text(plan.planned_sms), ", executed with ", plan.executed_sms,
                ", both sized");
}

std::string name_in_front(const PlannedConfig& planned) {
  const auto& name = planned.config->deployment.name;
  return name ? concat(*name, ": ") : "";
}

// The weights that plans ran, all of one layer; null: layers were made up.
const LayerSource* source_of(const std::vector<ValidatedPlan>& plans) {
  for (const ValidatedPlan& plan : plans)
    if (plan.weights) return &*plan.weights;
  return nullptr;
}

// What every report of the command has, whatever it found.
Report base_report(const PlannedConfig& planned, const std::vector<ValidatedPlan>& plans) {
  const Deployment& deployment = planned.config->deployment;
  const LayerSource* const source = source_of(plans);
  Report report;
  report.schema = "moeplan.validate/1";
  report.subject = subject_of(deployment);
  report.facts = {{"name", deployment.name ? Cell(*deployment.name) : Cell()},
                  {"contract", planned.contract_names()},
                  {"weights_file", source ? Cell(source->file) : Cell()},
                  {"weights_layer", source ? Cell(source->layer) : Cell()}};
  report.tables = {plans_table(plans), tensors_table(plans), live_counts_table(plans), shrinks_table(plans)};
  return report;
}

void add_totals(Report& report, const std::vector<ValidatedPlan>& plans, i64 uncovered) {
  i64 launches = 0, left_out = 0, failed = 0, caught = 0, missed = 0, not_observable = 0;
  for (const ValidatedPlan& plan : plans) {
    launches += launches_of(plan);
    left_out += plan.launches_left_out;
    for_each_launch(plan, [&](const Measurement& m) { failed += judge(m).passes() ? 0 : 1; });
    for (const Shrink& shrink : plan.shrinks) {
      caught += shrink.outcome() == ShrinkOutcome::caught;
      missed += shrink.outcome() == ShrinkOutcome::missed;
      not_observable += shrink.outcome() == ShrinkOutcome::not_observable;
    }
  }
  report.totals = {{"plans", std::ssize(plans)},
                   {"valid_plans", std::ranges::count_if(plans, &ValidatedPlan::is_valid)},
                   {"plans_without_kernels", uncovered},
                   {"launches", launches},
                   {"launches_left_out", left_out},
                   {"failed_launches", failed},
                   {"shrinks_caught", caught},
                   {"shrinks_missed", missed},
                   {"shrinks_not_observable", not_observable}};
}

}  // namespace

bool ValidatedPlan::is_valid() const {
  const auto passes = [](const Measurement& m) { return judge(m).passes(); };
  return findings.empty() && std::ranges::all_of(packed, passes) && std::ranges::all_of(strict, passes) &&
         std::ranges::none_of(shrinks,
                              [](const Shrink& shrink) { return shrink.outcome() == ShrinkOutcome::missed; });
}

Report validate_report(const PlannedConfig& planned, const ValidationMachine& machine,
                       const std::vector<ValidatedPlan>& plans, const std::vector<std::string>& uncovered,
                       std::vector<Finding> findings) {
  Report report = base_report(planned, plans);
  add_totals(report, plans, std::ssize(uncovered));
  report.findings = std::move(findings);
  // Of the plan that comes nearest to what it may be off.
  double error = 0, largest = kHalfTolerance.largest_l2;
  i64 launches = 0;
  for (const ValidatedPlan& plan : plans) {
    add_checks(plan, report);
    const double of_plan = worst_of(plan).relative_l2, of_largest = plan.tolerance.largest_l2;
    if (&plan == &plans.front() || of_plan / of_largest > error / largest) {
      error = of_plan;
      largest = of_largest;
    }
    launches += launches_of(plan);
    if (plan.launches_left_out > 0)
      report.notes.push_back(concat(plan_name(plan.id), ": ", grouped(plan.launches_left_out),
                                    " launches are left out, which would take too long"));
    if (plan.weights && plan.shrinks_made_up)
      report.notes.push_back(concat(plan_name(plan.id), ": its launches ran layer ", plan.weights->layer,
                                    " of ", plan.weights->file,
                                    "; the small plan whose tensors are shrunk ran "
                                    "a layer that was made up"));
  }
  const i64 valid = std::ranges::count_if(plans, &ValidatedPlan::is_valid);
  report.answered_no = valid < std::ssize(plans);
  const LayerSource* const source = source_of(plans);
  report.verdict =
      concat(name_in_front(planned), report.answered_no ? "NOT VALID" : "VALID", " · ", valid, " of ",
             plans.size(), plans.size() == 1 ? " plan" : " plans", " · ", machine.gpu, ", ",
             profile_text(machine, plans), " · ", grouped(launches), " launches, largest error ",
             figure(error), " of ", figure(largest), rest_text(uncovered, report.findings),
             source ? concat(" · layer ", source->layer, " of ", source->file) : "");
  report.facts.push_back({"valid", !report.answered_no});
  report.facts.push_back({"skipped", Cell()});
  report.facts.push_back({"gpu", machine.gpu});
  report.facts.push_back({"gpu_sms", machine.gpu_sms});
  report.facts.push_back({"emulated", machine.is_emulating});
  return report;
}

Report skipped_report(const PlannedConfig& planned, const ValidateOptions& options,
                      const CoveredPlans& covered, const Error& why) {
  Report report = base_report(planned, {});
  report.findings = covered.findings;
  add_totals(report, {}, 0);
  report.verdict = concat(name_in_front(planned), "SKIPPED · nothing was run: ", skip_reason(why),
                          rest_text(covered.uncovered, covered.findings));
  for (Fact& fact : report.facts) {
    if (options.weights.empty()) break;
    if (fact.key == "weights_file") fact.value = options.weights;
    if (fact.key == "weights_layer") fact.value = options.layer;
  }
  report.facts.push_back({"valid", Cell()});
  add_skip(report, why);
  report.facts.push_back({"gpu", Cell()});
  report.facts.push_back({"gpu_sms", Cell()});
  report.facts.push_back({"emulated", Cell()});
  return report;
}

void add_samples(Evidence& evidence, const std::vector<ValidatedPlan>& plans) {
  // As a share of 1e-9; what is no number, or larger than any error can be, as the largest.
  const auto nano = [](double value) {
    return value >= 0 && value < 1e9 ? static_cast<i64>(std::llround(1e9 * value)) : i64{1} << 60;
  };
  for (const ValidatedPlan& plan : plans) {
    EvidenceSamples tokens{.name = concat(plan.id, ": live tokens of each launch"), .unit = "tokens"};
    EvidenceSamples errors{.name = concat(plan.id, ": relative error of the output"), .unit = "1e-9"};
    EvidenceSamples cosines{.name = concat(plan.id, ": 1 - cosine of the output"), .unit = "1e-9"};
    for (const Measurement& m : plan.packed) {
      tokens.values.push_back(m.tokens);
      errors.values.push_back(nano(m.output.relative_l2));
      cosines.values.push_back(nano(std::max(1 - m.output.cosine, 0.0)));
    }
    evidence.samples.insert(evidence.samples.end(), {tokens, errors, cosines});
    for (const HighWater& use : high_water_of(plan.packed)) {
      EvidenceSamples touched{.name = concat(plan.id, ": ", use.tensor, " touched, of ", use.planned_bytes),
                              .unit = "B"};
      for (const Measurement& m : plan.packed) {
        for (const TensorUse& tensor : m.tensors)
          if (tensor.use.tensor == use.tensor) touched.values.push_back(tensor.use.end_touched);
      }
      evidence.samples.push_back(std::move(touched));
    }
    for (const Shrink& shrink : plan.shrinks)
      evidence.facts.push_back({concat(plan.id, " (", plan.shrunk, "), ", shrink.tensor, " without its last ",
                                       shrink.taken_bytes, " bytes"),
                                shrink.text()});
    if (plan.weights) {
      evidence.facts.push_back({concat(plan.id, ": file of the weights"), plan.weights->file});
      evidence.facts.push_back({concat(plan.id, ": layer of the weights"), plan.weights->layer});
      evidence.facts.push_back({concat(plan.id, ": weights"), text_of(*plan.weights)});
    }
    evidence.facts.push_back({concat(plan.id, ": bytes of the arena that ran"), plan.executed_bytes});
    evidence.facts.push_back({concat(plan.id, ": multiprocessors it was planned for"), plan.planned_sms});
    evidence.facts.push_back({concat(plan.id, ": multiprocessors it ran with"), plan.executed_sms});
  }
}

}  // namespace moeplan
