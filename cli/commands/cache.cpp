// moeplan cache: what the cache of compiled kernels holds; whether it is whole; an empty one.
#include <cstdio>

#include "cli/commands/finish.hpp"
#include "cli/commands/options.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"
#include "runtime/jit/cubin_cache.hpp"

namespace moeplan {
namespace {

// What follows `word` on the first line of a key that starts with it.
std::string of_key(std::string_view key, std::string_view word) {
  for (std::size_t from = 0; from < key.size(); from = key.find('\n', from) + 1) {
    const std::string_view line = key.substr(from, key.find('\n', from) - from);
    if (line.starts_with(word)) return std::string(line.substr(word.size()));
    if (key.find('\n', from) == std::string_view::npos) break;
  }
  return "";
}

Table entries_table(const std::vector<CachedKernel>& entries) {
  Table table;
  table.key = "entries";
  table.columns = {{"id", "ENTRY"},
                   {"kernel", "KERNEL"},
                   {"architecture", "ARCH"},
                   {"nvrtc", "NVRTC"},
                   {"bytes", "BYTES", ColumnKind::count}};
  for (const CachedKernel& entry : entries)
    table.rows.push_back(
        {{entry.id, of_key(entry.key, "kernel "), of_key(entry.key, "option --gpu-architecture="),
          of_key(entry.key, "nvrtc "), entry.bytes},
         {}});
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
  report.verdict = concat(entries_text(static_cast<i64>(entries->size())), ", ", grouped(bytes), " B of ",
                          grouped(kDefaultCacheLimit));
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
  auto cache = CubinCache::open(*folder, kDefaultCacheLimit, [](const std::string& text) {
    std::fprintf(stderr, "warning: %s\n", printable(text).c_str());
  });
  if (!cache) {
    complain(cache.error());
    return ExitCode::input;
  }
  Report report;
  report.schema = "moeplan.cache/1";
  report.facts = {{"folder", *folder}, {"action", options.action}};
  if (const Status answered = answer(*cache, options.action, report); !answered) {
    complain(answered.error());
    return ExitCode::input;
  }
  report.verdict = concat(*folder, ": ", report.verdict);
  return finish({&report, 1}, {}, options.report);
}

}  // namespace moeplan
