// moeplan diff: what changed between two configs, plans or contracts, or since the baseline?
#include <algorithm>

#include "cli/commands/config_key.hpp"
#include "cli/commands/engine_note.hpp"
#include "cli/commands/finish.hpp"
#include "cli/commands/options.hpp"
#include "cli/commands/snapshot_of.hpp"
#include "cli/io/baseline_file.hpp"
#include "cli/render/text.hpp"
#include "planner/core/did_you_mean.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

Error usage(std::string message, std::string help) {
  return {ErrorCode::invalid_value, "", std::move(message), std::move(help)};
}

// One side of a comparison, and what people call it.
struct Side {
  std::string label;
  Snapshot snapshot;
};

class Sides {
 public:
  explicit Sides(const DiffOptions& options) : options_(options) {}

  // Plans `path` with these overrides; nothing where it has problems.
  std::optional<Side> plan(const std::string& path, const ConfigOverrides& overrides, std::string label) {
    configs_.push_back(plan_config(read_config(path, overrides)));
    const PlannedConfig& planned = configs_.back();
    problems.insert(problems.end(), planned.config->problems.begin(), planned.config->problems.end());
    if (!planned.ok()) return std::nullopt;
    return Side{std::move(label), snapshot_of(planned, path)};
  }

  const DiffOptions& options() const { return options_; }

  std::vector<Problem> problems;
  std::unique_ptr<BaselineFile> baseline;  // places in problems point into it

 private:
  const DiffOptions& options_;
  std::vector<PlannedConfig> configs_;  // places in problems point into them
};

// A side reduced to one arena, under a name that both sides share.
Result<Side> only_plan(const Side& side, const std::string& id) {
  std::vector<std::string_view> ids;
  for (const SnapshotArena& arena : side.snapshot.arenas) ids.push_back(arena.id);
  const auto found = std::ranges::find(side.snapshot.arenas, id, &SnapshotArena::id);
  if (found == side.snapshot.arenas.end()) {
    const auto near = did_you_mean(id, ids);
    return usage(concat("the config has no plan ", id),
                 near ? concat("did you mean \"", *near, "\"?") : concat("it has ", join(ids, ", ")));
  }
  Side one{id, {}};
  one.snapshot.contract = side.snapshot.contract;
  one.snapshot.kv_bytes_per_token = side.snapshot.kv_bytes_per_token;
  one.snapshot.kv_dcp = side.snapshot.kv_dcp;
  (found->is_indexer ? one.snapshot.indexer_bytes : one.snapshot.moe_bytes) = found->bytes;
  one.snapshot.arenas = {*found};
  one.snapshot.arenas[0].id = "plan";
  return one;
}

std::string signed_mib(i64 bytes) { return concat(bytes > 0 ? "+" : "", mebibytes(bytes), " MiB"); }

Report diff_report(const Side& before, const Side& after, const DiffOptions& options) {
  const Difference d = difference_of(before.snapshot, after.snapshot);
  Report report;
  report.schema = "moeplan.diff/1";
  const i64 old_bytes = before.snapshot.scratch_bytes(), new_bytes = after.snapshot.scratch_bytes();
  report.verdict = concat(before.label, " -> ", after.label, ": ");
  report.verdict += d.differs() ? concat(mebibytes(old_bytes), " -> ", mebibytes(new_bytes),
                                         " MiB of scratch a rank (", signed_mib(d.growth()))
                                : concat("no difference, ", mebibytes(new_bytes), " MiB of scratch a rank");
  if (d.differs()) {
    if (const auto tokens = d.kv_tokens_of_growth)
      report.verdict += concat(", ", *tokens < 0 ? "+" : "", grouped(-*tokens), " KV tokens");
    report.verdict += ")";
  }
  if (!d.settings.empty())
    report.verdict +=
        concat(" · ", d.settings.size(), d.settings.size() == 1 ? " setting" : " settings", " changed");
  report.facts = {{"before", before.label}, {"after", after.label}, {"differs", d.differs()}};
  report.totals = {{"before_bytes", old_bytes},
                   {"after_bytes", new_bytes},
                   {"growth_bytes", d.growth()},
                   {"growth_kv_tokens", optional_cell(d.kv_tokens_of_growth)}};
  report.tables = difference_tables(d, options.all);
  // A snapshot names all contracts of its plans.
  for (const Contract& contract : contracts()) {
    const auto is_of = [&](const Side& side) {
      return side.snapshot.contract.find(contract.id) != std::string::npos;
    };
    if (is_of(before) || is_of(after)) add_engine_note(report, contract);
  }
  report.answered_no = options.exit_code && d.differs();
  return report;
}

// Never printed: the problems of a side say what is wrong.
Error told_as_problems() { return usage("", ""); }

Result<std::pair<Side, Side>> compared(Sides& sides) {
  const DiffOptions& options = sides.options();
  const auto& paths = options.configs.paths;
  if (std::ranges::find(paths, "-") != paths.end())
    return usage("diff reads its configs by name, some twice", "write standard input to a file first");
  ConfigOverrides before = options.configs.overrides, after = options.configs.overrides;
  // Contracts are compared over one config, and so with the same changes.
  if (options.contracts.empty()) before.sets.clear();
  const auto both = [](std::optional<Side> a, std::optional<Side> b) -> Result<std::pair<Side, Side>> {
    if (!a || !b) return told_as_problems();
    return std::pair{std::move(*a), std::move(*b)};
  };
  const bool has_other = !options.contracts.empty() || !options.plans.empty() || !options.baseline.empty();
  if (paths.size() == 2 && has_other)
    return usage("two configs are compared with each other",
                 "leave --contracts, --plans and --baseline to one config");
  if (paths.size() == 2) {
    auto a = sides.plan(paths[0], before, paths[0]);
    return both(std::move(a), sides.plan(paths[1], after, paths[1]));
  }
  if (options.contracts.size() == 2) {
    before.contract = options.contracts[0];
    after.contract = options.contracts[1];
    auto a = sides.plan(paths[0], before, options.contracts[0]);
    return both(std::move(a), sides.plan(paths[0], after, options.contracts[1]));
  }
  if (options.plans.size() == 2) {
    const auto side = sides.plan(paths[0], after, paths[0]);
    if (!side) return told_as_problems();
    auto a = only_plan(*side, options.plans[0]), b = only_plan(*side, options.plans[1]);
    if (!a) return a.error();
    if (!b) return b.error();
    return std::pair{std::move(*a), std::move(*b)};
  }
  if (!options.baseline.empty()) {
    sides.baseline = read_baseline(options.baseline);
    const auto& file = sides.baseline;
    sides.problems.insert(sides.problems.end(), file->problems.begin(), file->problems.end());
    if (!file->problems.empty()) return told_as_problems();
    const Snapshot* known = file->baseline.find(config_key(paths[0]));
    if (!known)
      return usage(concat("baseline ", options.baseline, " does not know ", paths[0]),
                   "moeplan baseline update --reason \"…\" adds it");
    return both(Side{concat("baseline ", short_digest(file->text)), *known},
                sides.plan(paths[0], after, paths[0]));
  }
  if (options.configs.overrides.sets.empty())
    return usage("diff compares two of something",
                 "give two configs, or one with --contracts A,B, --plans A,B, --baseline FILE or --set");
  auto a = sides.plan(paths[0], before, paths[0]);
  return both(std::move(a), sides.plan(paths[0], after, concat(paths[0], " with --set")));
}

}  // namespace

ExitCode run_diff(const DiffOptions& options) {
  const ReportOptions& output = options.configs.report;
  Sides sides(options);
  auto pair = compared(sides);
  if (!sides.problems.empty()) return finish({}, sides.problems, output);
  if (!pair) {
    const Problem problem{pair.error(), {}};
    finish({}, {&problem, 1}, output);
    return ExitCode::usage;
  }
  const Report report = diff_report(pair->first, pair->second, options);
  return finish({&report, 1}, {}, output);
}

}  // namespace moeplan
