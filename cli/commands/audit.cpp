// moeplan audit: does the reserve hold for every number of live tokens, and which bytes can none use?
#include <algorithm>

#include "cli/commands/finish.hpp"
#include "cli/commands/options.hpp"
#include "cli/commands/plan_choice.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/exl3_reach.hpp"
#include "planner/moe/plan_moe.hpp"
#include "planner/moe/soundness_notes.hpp"

namespace moeplan {
namespace {

constexpr std::string_view map_text(ExpertMap map) {
  return map == ExpertMap::present ? "present" : "absent";
}

// One plan with what it is found to be.
struct Audited {
  const DeployedPlan* plan;
  MoeLayout reserve;             // the plan's own, or what --assume-blocks makes of it
  std::vector<MoeAudit> audits;  // one an expert map; none: not audited

  std::optional<i64> counter_example() const {
    std::optional<i64> smallest;
    for (const MoeAudit& audit : audits) {
      const auto found = audit.counter_example();
      if (found && (!smallest || *found < *smallest)) smallest = found;
    }
    return smallest;
  }
};

// The request whose reserve is looked at: the plan's, or under assumed block sizes. `contract` has to outlive
// the result.
MoeRequest reserved_request(const MoeRequest& request, std::string_view assumption, Contract& contract) {
  MoeRequest reserved = request;
  if (assumption.empty() || request.capacity.block_size_m) return reserved;
  constexpr std::pair<std::string_view, UnpinnedBlocks> kRules[] = {
      {"all", UnpinnedBlocks::all}, {"reachable", UnpinnedBlocks::reachable}, {"last", UnpinnedBlocks::last}};
  for (const auto& [name, rule] : kRules) {
    if (name != assumption) continue;
    contract = *request.contract;
    contract.unpinned_blocks = rule;
    reserved.contract = &contract;
    return reserved;
  }
  for (i64 block : kBlockSizes) {
    if (std::to_string(block) == assumption) reserved.capacity.block_size_m = block;
  }
  return reserved;
}

Result<Audited> audit_plan(const DeployedPlan& plan, const AuditOptions& options) {
  Audited audited{&plan, plan.layout, {}};
  if (plan.layout.implementation != Implementation::w4a16) return audited;
  Contract assumed_contract;
  const auto reserve = plan_moe(reserved_request(plan.request(), options.assume_blocks, assumed_contract));
  if (!reserve) {
    Error error = reserve.error();
    error.pointer = plan.origin.config_pointer(error.pointer);
    return error;
  }
  audited.reserve = *reserve;
  audited.reserve.contract = plan.layout.contract;
  // What a launch does is the request's affair: an assumed pin binds the reserve alone.
  MoeLayout launched = audited.reserve;
  launched.route_block_size_m = plan.layout.route_block_size_m;
  for (ExpertMap map : {ExpertMap::absent, ExpertMap::present}) {
    const bool stated = !plan.engine_made() && !options.expert_map.empty();
    const bool wanted = !stated || map_text(map) == options.expert_map;
    if (plan.may_have(map) && wanted) audited.audits.push_back(audit_moe(plan.request(), launched, map));
  }
  return audited;
}

std::string verdict_of(const TensorAudit& tensor) {
  if (tensor.short_at)
    return concat("short by ", grouped((tensor.short_need - tensor.planned) * tensor.item_bytes),
                  " B at m=", *tensor.short_at);
  return tensor.slack_bytes() == 0 ? "tight" : "slack";
}

Table tensor_audit_table(std::string title, const MoeAudit& audit) {
  Table table;
  table.key = "tensors";
  table.title = std::move(title);
  table.columns = {{"name", "TENSOR"},
                   {"planned_bytes", "PLANNED", ColumnKind::bytes},
                   {"needed_bytes", "MOST NEEDED", ColumnKind::count},
                   {"needed_at", "AT M", ColumnKind::count},
                   {"slack_bytes", "SLACK", ColumnKind::count},
                   {"short_at", "SHORT AT M", ColumnKind::count, Audience::programs},
                   {"verdict", "VERDICT"},
                   {"consequence", "CONSEQUENCE"}};
  for (const TensorAudit& t : audit.tensors) {
    table.rows.push_back({{std::string(t.name), t.planned * t.item_bytes, t.needed * t.item_bytes,
                           t.needed_at, t.slack_bytes(), t.short_at ? Cell(*t.short_at) : Cell(),
                           verdict_of(t), t.short_at ? Cell(std::string(text_of(t.consequence))) : Cell()},
                          {}});
  }
  return table;
}

std::string blocks_text(const MoeAudit& audit) {
  std::vector<std::string> parts;
  for (const LiveBlocks& b : audit.blocks)
    parts.push_back(audit.blocks.size() == 1
                        ? std::to_string(b.block_size)
                        : concat(b.block_size, ": ", b.tokens.first, "..", b.tokens.last));
  return join(parts, ", ");
}

i64 total_slack(const MoeAudit& audit) {
  i64 slack = 0;
  for (const TensorAudit& tensor : audit.tensors) slack += max_of(tensor.slack_bytes(), 0);
  return slack;
}

Table plans_table(std::span<const Audited> audited) {
  Table table;
  table.key = "plans";
  table.columns = {{"id", "PLAN"},
                   {"contract", "CONTRACT", ColumnKind::text, Audience::programs},
                   {"capacity", "LIVE TOKENS 1..", ColumnKind::count},
                   {"expert_map", "EXPERT MAP"},
                   {"blocks", "BLOCK: LIVE TOKENS"},
                   {"reserved_bytes", "RESERVED", ColumnKind::bytes},
                   {"slack_bytes", "SLACK", ColumnKind::count},
                   {"counter_example", "COUNTER-EXAMPLE", ColumnKind::count, Audience::programs},
                   {"exhaustive", "EXHAUSTIVE", ColumnKind::text, Audience::programs},
                   {"sound", "SOUND"}};
  for (const Audited& a : audited) {
    const std::string contract(a.reserve.contract->id);
    for (const MoeAudit& audit : a.audits) {
      const auto found = audit.counter_example();
      table.rows.push_back(
          {{a.plan->id(), contract, audit.capacity, std::string(map_text(audit.map)), blocks_text(audit),
            a.reserve.total_bytes, total_slack(audit), found ? Cell(*found) : Cell(), audit.exhaustive,
            !found},
           {tensor_audit_table(
               concat(a.plan->id(), ", by tensor",
                      a.audits.size() > 1 ? concat(", expert map ", map_text(audit.map)) : ""),
               audit)}});
    }
    if (a.audits.empty())
      table.rows.push_back({{a.plan->id(), contract, a.plan->request().capacity.tokens(), Cell(), Cell(),
                             a.reserve.total_bytes, Cell(), Cell(), Cell(), Cell()},
                            {}});
  }
  return table;
}

struct UnusedRow {
  std::string plan;
  UnusedBytes unused;
};

// The plan whose reserve its arena has: the largest that lies in it.
bool fills_arena(const Audited& audited, std::span<const Audited> all) {
  return std::ranges::none_of(all, [&](const Audited& other) {
    if (other.plan->arena != audited.plan->arena || &other == &audited) return false;
    const i64 bytes = audited.reserve.total_bytes;
    return other.reserve.total_bytes > bytes || (other.reserve.total_bytes == bytes && &other < &audited);
  });
}

std::vector<UnusedRow> unused_rows(const Deployment& deployment, std::span<const Audited> audited) {
  std::vector<UnusedRow> rows;
  for (const Audited& a : audited) {
    if (a.audits.empty() || !fills_arena(a, audited)) continue;
    for (UnusedBytes& unused : unused_bytes(a.plan->request(), a.reserve, a.audits, a.plan->engine_made()))
      rows.push_back({a.plan->id(), std::move(unused)});
    for (UnusedBytes& unused : unscheduled_bytes(*a.plan)) rows.push_back({a.plan->id(), std::move(unused)});
  }
  if (deployment.engine && is_exl3(deployment)) {
    for (UnusedStaging& staging : unused_staging(deployment))
      rows.push_back({std::move(staging.runtime), std::move(staging.unused)});
  }
  return rows;
}

Table unused_table(std::span<const UnusedRow> rows, const std::optional<KvCache>& kv) {
  Table table;
  table.key = "never_touched";
  table.title = "reserved, and used by no live token count";
  table.columns = {{"plan", "PLAN"},
                   {"kind", "KIND"},
                   {"tensor", "WHAT"},
                   {"bytes", "BYTES", ColumnKind::bytes},
                   {"kv_tokens", "KV TOKENS", ColumnKind::count},
                   {"why", "WHY", ColumnKind::text, Audience::programs}};
  i64 sum = 0;
  for (const auto& [plan, unused] : rows) {
    table.rows.push_back({{plan, std::string(unused.kind),
                           unused.tensor.empty() ? Cell(std::string("arena")) : Cell(unused.tensor),
                           unused.bytes, kv_tokens_cell(kv, unused.bytes), unused.why},
                          {}});
    sum += unused.bytes;
  }
  table.footers.push_back({{std::string("total"), Cell(), Cell(), sum, kv_tokens_cell(kv, sum), Cell()}, {}});
  return table;
}

// What rows of one plan and kind say together.
std::vector<Finding> unused_findings(std::span<const UnusedRow> rows) {
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < rows.size();) {
    const auto& [plan, first] = rows[i];
    std::vector<std::string> tensors;
    i64 bytes = 0;
    for (; i < rows.size() && rows[i].plan == plan && rows[i].unused.kind == first.kind; ++i) {
      if (!rows[i].unused.tensor.empty()) tensors.push_back(rows[i].unused.tensor);
      bytes += rows[i].unused.bytes;
    }
    findings.push_back({"never-touched", "note", "",
                        concat(plan, ": ", mebibytes(bytes), " MiB",
                               tensors.empty() ? std::string() : concat(" of ", join(tensors, ", ", " and ")),
                               " are never touched: ", first.why),
                        "", bytes});
  }
  return findings;
}

// A shortage of one tensor, at the smallest live count that meets it.
Finding shortage(const Audited& audited, const MoeAudit& audit, const TensorAudit& t) {
  const i64 missing = (t.short_need - t.planned) * t.item_bytes;
  const MoeRequest& request = audited.plan->request();
  std::string remedy = join(sound_alternatives(request, audit.map), "; ");
  if (!audit_moe(request, audited.plan->layout, audit.map).counter_example())
    remedy = "what the contract reserves is sound; the assumed block sizes are not";
  return {"unsound", "error", audited.plan->origin.config_pointer("/capacity/max_tokens"),
          concat("plan ", audited.plan->id(), ": ", t.name, " is short by ", grouped(missing),
                 " B at m=", *t.short_at, " (", grouped(t.short_need * t.item_bytes), " B needed, ",
                 grouped(t.planned * t.item_bytes), " B planned)",
                 audit.map == ExpertMap::present ? " when an expert map is passed" : "", ": ",
                 text_of(t.consequence)),
          remedy.empty() ? "no pin and no other contract is sound for this plan" : remedy};
}

// Plans that hold what is needed and yet cannot be launched.
std::vector<Finding> launch_failures(const Deployment& deployment, const std::vector<DeployedPlan>& plans) {
  std::vector<Finding> findings;
  if (!deployment.device || !deployment.device->shared_memory_per_block_optin) return findings;
  const auto launches = launches_of(stepped(plans), *deployment.device->shared_memory_per_block_optin);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const auto& failure = launches[i].failure;
    if (!failure || failure->code == ErrorCode::launch_not_modelled) continue;
    findings.push_back({"launch-fails", "warning", plans[i].origin.config_pointer(failure->pointer),
                        concat("plan ", plans[i].id(), ": ", failure->message), failure->help});
  }
  return findings;
}

std::vector<Finding> findings_of(std::span<const Audited> audited) {
  std::vector<Finding> findings;
  for (const Audited& a : audited) {
    for (const MoeAudit& audit : a.audits) {
      for (const TensorAudit& tensor : audit.tensors) {
        if (tensor.short_at) findings.push_back(shortage(a, audit, tensor));
      }
    }
    for (const SizeSurprise& surprise : size_surprises(a.plan->request(), a.plan->layout))
      findings.push_back({std::string(surprise.rule), "note", a.plan->origin.config_pointer(surprise.pointer),
                          concat("plan ", a.plan->id(), ": ", surprise.message), "", surprise.bytes});
  }
  return findings;
}

std::string verdict_line(const PlannedConfig& planned, std::span<const Audited> audited, i64 unused) {
  const auto& name = planned.config->deployment.name;
  std::vector<std::string> sound, open;
  std::string unsound;
  for (const Audited& a : audited) {
    if (a.audits.empty()) {
      open.push_back(a.plan->id());
    } else if (const auto m = a.counter_example()) {
      for (const MoeAudit& audit : a.audits) {
        for (const TensorAudit& t : audit.tensors) {
          if (unsound.empty() && t.short_at == m)
            unsound = concat("plan ", a.plan->id(), " is too small at m=", *m, ": ", t.name, " is ",
                             verdict_of(t), ", ", text_of(t.consequence));
        }
      }
    } else {
      sound.push_back(concat(a.plan->id(), " 1..", grouped(a.audits.front().capacity)));
    }
  }
  std::string line = name ? concat(*name, ": ") : std::string();
  if (!unsound.empty())
    line += concat("UNSOUND · ", unsound);
  else if (!sound.empty())
    line += concat("SOUND · every live token count fits, tensor by tensor: ", join(sound, ", "));
  else
    line += "NOT AUDITED · no W4A16 plan in this config";
  if (!open.empty() && (!sound.empty() || !unsound.empty()))
    line += concat(" · not audited: ", join(open, ", "));
  if (unused > 0) line += concat(" · ", mebibytes(unused), " MiB never touched");
  return line + concat(" · contract ", planned.contract_names());
}

Result<Report> audit_report(const PlannedConfig& planned, const std::vector<DeployedPlan>& plans,
                            const AuditOptions& options) {
  const Deployment& deployment = planned.config->deployment;
  std::vector<Audited> audited;
  for (const DeployedPlan& plan : plans) {
    if (!is_chosen(plan.id(), options.plan)) continue;
    auto answer = audit_plan(plan, options);
    if (!answer) return answer.error();
    audited.push_back(std::move(*answer));
  }
  auto unused = unused_rows(deployment, audited);
  if (!options.plan.empty())
    std::erase_if(unused, [&](const UnusedRow& row) { return row.plan != options.plan; });
  const auto kv = stated_kv_cache(deployment);
  i64 unused_sum = 0;
  for (const UnusedRow& row : unused) unused_sum += row.unused.bytes;

  Report report;
  report.schema = "moeplan.audit/1";
  report.answered_no =
      std::ranges::any_of(audited, [](const Audited& a) { return a.counter_example().has_value(); });
  report.verdict = verdict_line(planned, audited, unused_sum);
  report.subject = subject_of(deployment);
  const bool any_audited = std::ranges::any_of(audited, [](const Audited& a) { return !a.audits.empty(); });
  report.facts = {{"name", deployment.name ? Cell(*deployment.name) : Cell()},
                  {"contract", planned.contract_names()},
                  {"sound", any_audited ? Cell(!report.answered_no) : Cell()},
                  {"assume_blocks", options.assume_blocks.empty() ? Cell() : Cell(options.assume_blocks)}};
  report.totals = {{"never_touched_bytes", unused_sum},
                   {"never_touched_kv_tokens", kv_tokens_cell(kv, unused_sum)}};
  report.tables.push_back(plans_table(audited));
  if (!unused.empty()) report.tables.push_back(unused_table(unused, kv));
  report.findings = findings_of(audited);
  for (auto& more : {unused_findings(unused), launch_failures(deployment, plans)})
    report.findings.insert(report.findings.end(), more.begin(), more.end());
  if (!options.assume_blocks.empty())
    report.notes.push_back(concat(
        "the reserve is that of a planner that sizes unpinned plans for blocks: ", options.assume_blocks,
        "; launches are the contract's own, and pinned plans are as they are"));
  if (!planned.mixed_parts.empty())
    report.notes.push_back(
        "the one-grid kernels of mixed bit widths are compiled for their capacity: fewer live tokens change "
        "nothing in their buffers");
  if (!planned.indexer_plans.empty())
    report.notes.push_back("indexer arenas are checked when a call is bound, not here");
  if (std::ranges::any_of(audited, [](const Audited& a) { return a.audits.empty(); }))
    report.notes.push_back("how micro and dynamic launches size themselves is not modelled: not audited");
  if (!kv && unused_sum > 0) report.notes.push_back("KV tokens need a deployment whose KV cache is stated");
  return report;
}

}  // namespace

ExitCode run_audit(const AuditOptions& options) {
  bool wrong_choice = false;
  const ExitCode code = answer_configs(options.configs, [&](const PlannedConfig& planned) -> Result<Report> {
    const auto plans = deployed_plans(planned.config->deployment);
    if (!plans) return plans.error();
    if (auto s = check_choice(*plans, options.plan); !s) {
      wrong_choice = true;
      return s.error();
    }
    return audit_report(planned, *plans, options);
  });
  return wrong_choice ? ExitCode::usage : code;
}

}  // namespace moeplan
