// moeplan cache: what the cache of compiled kernels holds; whether it is whole; an empty one.
#include <sys/stat.h>

#include <cerrno>

#include "cli/commands/finish.hpp"
#include "cli/commands/options.hpp"
#include "planner/core/text.hpp"
#include "runtime/jit/compiler.hpp"

namespace moeplan {
namespace {

Table entries_table(const std::vector<CachedKernel>& entries) {
  Table table;
  table.key = "entries";
  table.columns = {{"id", "", ColumnKind::text, Audience::programs},
                   {"short_id", "ENTRY", ColumnKind::text, Audience::people},
                   {"kernel", "KERNEL"},
                   {"architecture", "ARCH"},
                   {"nvrtc", "NVRTC"},
                   {"bytes", "BYTES", ColumnKind::count},
                   {"variant", "VARIANT"}};
  for (const CachedKernel& entry : entries) {
    const KeySummary summary = summary_of_key(entry.key);
    table.rows.push_back({{entry.id, entry.id.substr(0, 12), summary.kernel, summary.architecture,
                           summary.nvrtc, entry.bytes, summary.defines},
                          {}});
  }
  return table;
}

std::string counted(i64 count, std::string_view one, std::string_view many) {
  return concat(grouped(count), " ", count == 1 ? one : many);
}

std::string entries_text(i64 count) { return counted(count, "entry", "entries"); }

Status answer_verify(const CubinCache& cache, Report& report) {
  const auto verdict = cache.verify();
  if (!verdict) return verdict.error();
  report.answered_no = !verdict->damaged.empty();
  report.verdict = concat(report.answered_no ? "DAMAGED" : "WHOLE", " · ", entries_text(verdict->whole),
                          " as written, ", verdict->damaged.size(), " damaged");
  for (const CubinCache::Damage& damage : verdict->damaged)
    report.findings.push_back({"damaged", "error", "", concat(damage.id, ": ", damage.what),
                               "it is rebuilt when it is next asked for; moeplan cache clear removes all"});
  return Ok{};
}

Status answer_clear(CubinCache& cache, Report& report) {
  const auto removed = cache.clear();
  if (!removed) return removed.error();
  report.verdict = concat("removed ", entries_text(*removed));
  return Ok{};
}

Status answer_info(const CubinCache& cache, Report& report) {
  const auto entries = cache.entries();
  if (!entries) return entries.error();
  i64 bytes = 0;
  for (const CachedKernel& entry : *entries) bytes += entry.bytes;
  const auto verdict = cache.verify();
  if (!verdict) return verdict.error();
  report.verdict = concat(entries_text(static_cast<i64>(entries->size())), ", ", grouped(bytes), " B of ",
                          grouped(kDefaultCacheLimit));
  if (!verdict->damaged.empty())
    report.notes.push_back(concat(entries_text(static_cast<i64>(verdict->damaged.size())),
                                  " besides are damaged: moeplan cache verify lists them"));
  report.totals = {
      {"entries", static_cast<i64>(entries->size())}, {"bytes", bytes}, {"limit_bytes", kDefaultCacheLimit}};
  report.tables.push_back(entries_table(*entries));
  return Ok{};
}

Status answer(CubinCache& cache, const std::string& action, Report& report) {
  if (action == "verify") return answer_verify(cache, report);
  if (action == "clear") return answer_clear(cache, report);
  return answer_info(cache, report);
}

}  // namespace

ExitCode run_cache(const CacheOptions& options) {
  const auto folder = cache_folder(read_runtime_environment());
  if (!folder) {
    complain(folder.error());
    return ExitCode::input;
  }
  Report report;
  report.schema = "moeplan.cache/1";
  report.facts = {{"folder", *folder}, {"action", options.action}};
  // A question makes no folder.
  struct stat there {};
  if (lstat(folder->c_str(), &there) != 0 && errno == ENOENT) {
    report.verdict = concat(*folder, ": no cache is there yet");
    return finish({&report, 1}, {}, options.report);
  }
  auto cache = CubinCache::open(*folder, kDefaultCacheLimit, [](const std::string& text) { warn(text); });
  if (!cache) {
    complain(cache.error());
    return ExitCode::input;
  }
  if (const Status answered = answer(*cache, options.action, report); !answered) {
    complain(answered.error());
    return ExitCode::input;
  }
  report.verdict = concat(*folder, ": ", report.verdict);
  return finish({&report, 1}, {}, options.report);
}

}  // namespace moeplan
