// moeplan baseline: write what configs reserve now, update it with a reason, show it.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "cli/commands/config_key.hpp"
#include "cli/commands/finish.hpp"
#include "cli/commands/options.hpp"
#include "cli/commands/snapshot_of.hpp"
#include "cli/commands/today.hpp"
#include "cli/io/baseline_file.hpp"
#include "cli/io/text_file.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

Error usage(std::string message, std::string help) {
  return {ErrorCode::invalid_value, "", std::move(message), std::move(help)};
}

// "1,097.68 MiB", "+1,600.16 MiB".
std::string signed_mebibytes(i64 bytes) { return concat(bytes > 0 ? "+" : "", mebibytes(bytes), " MiB"); }

Table configs_table(const Baseline& baseline) {
  Table table;
  table.key = "configs";
  table.columns = {{"config", "CONFIG"},
                   {"contract", "CONTRACT"},
                   {"moe_bytes", "MOE SCRATCH", ColumnKind::bytes},
                   {"indexer_bytes", "INDEXER", ColumnKind::bytes},
                   {"kv_tokens", "KV TOKENS", ColumnKind::count},
                   {"cold_keys", "COLD KEYS", ColumnKind::count}};
  for (const Snapshot& s : baseline.configs)
    table.rows.push_back({{s.config, s.contract, s.moe_bytes, s.indexer_bytes, optional_cell(s.kv_tokens),
                           optional_cell(s.cold_keys)},
                          {}});
  return table;
}

Table history_table(const Baseline& baseline) {
  Table table;
  table.key = "history";
  table.title = "history";
  table.columns = {{"date", "DATE"}, {"reason", "REASON"}};
  for (const BaselineChange& change : baseline.history)
    table.rows.push_back({{change.date, change.reason}, {}});
  return table;
}

Report baseline_report(const BaselineFile& file, std::string verdict) {
  Report report;
  report.schema = "moeplan.baseline_report/1";
  report.verdict = std::move(verdict);
  report.source = file.name;
  report.facts = {{"digest", short_digest(file.text)}};
  report.totals = {{"configs", static_cast<i64>(file.baseline.configs.size())}};
  report.tables = {configs_table(file.baseline), history_table(file.baseline)};
  return report;
}

// Keeps other updates of baselines in the same folder out until it goes; it ends with the process, however
// that ends. A folder that is missing is made for a write; one that cannot be locked is told when the file is
// written.
class FolderLock {
 public:
  FolderLock(std::filesystem::path folder, bool writes) {
    if (!writes) return;
    std::error_code ignored;
    if (folder.empty()) folder = ".";
    std::filesystem::create_directories(folder, ignored);
    descriptor_ = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor_ >= 0) flock(descriptor_, LOCK_EX);
  }
  ~FolderLock() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

// The configs as snapshots; their problems where they have none.
std::vector<Snapshot> snapshots_of(const ConfigOptions& options, std::vector<PlannedConfig>& configs,
                                   std::vector<Problem>& problems) {
  std::vector<Snapshot> snapshots;
  for (const std::string& path : options.paths) {
    configs.push_back(plan_config(read_config(path, options.overrides)));
    const PlannedConfig& planned = configs.back();
    if (planned.ok()) snapshots.push_back(snapshot_of(planned, config_key(path)));
    problems.insert(problems.end(), planned.config->problems.begin(), planned.config->problems.end());
  }
  return snapshots;
}

Status check_options(const BaselineOptions& options) {
  const bool has_configs = !options.configs.paths.empty();
  if (options.baseline == "-") return usage("a baseline is a file, not standard input", "name the file");
  if (options.action == "show") return Ok{};
  if (!has_configs)
    return usage(concat("baseline ", options.action, " needs -c"),
                 "give the configs whose reserve is agreed to");
  if (std::ranges::find(options.configs.paths, "-") != options.configs.paths.end())
    return usage("a baseline knows configs by their path, and standard input has none", "write a file");
  if (options.action == "update" && options.reason.empty())
    return usage("baseline update needs --reason", "say why the reserve may change; it is kept in the file");
  return Ok{};
}

}  // namespace

ExitCode run_baseline(const BaselineOptions& options) {
  const ReportOptions& output = options.configs.report;
  const auto fail = [&](std::vector<Problem> problems, ExitCode code) {
    const ExitCode finished = finish({}, problems, output);
    return code == ExitCode::input ? finished : code;
  };
  if (auto s = check_options(options); !s) return fail({{s.error(), {}}}, ExitCode::usage);

  const FolderLock lock(std::filesystem::path(options.baseline).parent_path(), options.action != "show");
  std::unique_ptr<BaselineFile> file;
  if (options.action == "write") {
    // What is there was agreed to: only an update with a reason replaces it.
    std::error_code ignored;
    const bool exists = std::filesystem::symlink_status(options.baseline, ignored).type() !=
                        std::filesystem::file_type::not_found;
    if (exists && !options.force)
      return fail({{usage(concat(options.baseline, " exists"),
                          "baseline update --reason \"…\" changes it; --force writes it anew"),
                    {}}},
                  ExitCode::usage);
    file = std::make_unique<BaselineFile>();
    file->name = options.baseline;
  } else {
    file = read_baseline(options.baseline);
    if (!file->problems.empty()) return fail(file->problems, ExitCode::input);
  }
  if (options.action == "show") {
    const Report report = baseline_report(*file, concat("baseline ", short_digest(file->text), ": ",
                                                        file->baseline.configs.size(), " configs"));
    return finish({&report, 1}, {}, output);
  }

  std::vector<PlannedConfig> configs;
  std::vector<Problem> problems;
  std::vector<Snapshot> snapshots = snapshots_of(options.configs, configs, problems);
  if (!problems.empty()) return fail(problems, ExitCode::input);
  i64 growth = 0;
  for (Snapshot& snapshot : snapshots) {
    const Snapshot* before = file->baseline.find(snapshot.config);
    growth += snapshot.scratch_bytes() - (before ? before->scratch_bytes() : 0);
    file->baseline.put(std::move(snapshot));
  }
  file->baseline.history.push_back({text_of(date_or_today(options.today)),
                                    options.reason.empty() ? std::string("written") : options.reason});
  file->text = write_baseline(file->baseline);
  if (file->text.size() > kMaxInputBytes)
    return fail({{Error{ErrorCode::too_large, "",
                        concat("the baseline would have ", grouped(static_cast<i64>(file->text.size())),
                               " bytes, more than can be read again"),
                        "keep fewer configs in one baseline"},
                  {}}},
                ExitCode::input);
  if (auto s = write_file(options.baseline, file->text); !s) return fail({{s.error(), {}}}, ExitCode::input);
  const Report report =
      baseline_report(*file, concat("baseline ", short_digest(file->text), " written to ", options.baseline,
                                    ": ", options.configs.paths.size(), " of ", file->baseline.configs.size(),
                                    " configs, ", signed_mebibytes(growth), " a rank in all"));
  return finish({&report, 1}, {}, output);
}

}  // namespace moeplan
