// moeplan compile: do this deployment's kernels build for an architecture, and what do they take of a
// multiprocessor? Needs no GPU.
#include <algorithm>
#include <map>
#include <sstream>
#include <thread>

#include "cli/commands/covered_plans.hpp"
#include "cli/commands/finish.hpp"
#include "cli/commands/kernel_compiler.hpp"
#include "cli/commands/options.hpp"
#include "cli/commands/plan_choice.hpp"
#include "cli/commands/shared_limit.hpp"
#include "cli/log.hpp"
#include "cli/progress.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"
#include "runtime/jit/digest.hpp"
#include "runtime/planned_kernels.hpp"

namespace moeplan {
namespace {

// A variant with the plans that launch it.
struct WantedKernel {
  KernelVariant variant;
  std::vector<std::string> plans;
};

// Variants in the order in which plans ask for them, each once.
class WantedKernels {
 public:
  void add(const KernelVariant& variant, const std::string& plan) {
    const auto [place, is_new] = places_.emplace(variant, kernels_.size());
    if (is_new) kernels_.push_back({variant, {}});
    std::vector<std::string>& plans = kernels_[place->second].plans;
    if (std::ranges::find(plans, plan) == plans.end()) plans.push_back(plan);
  }
  const std::vector<WantedKernel>& all() const { return kernels_; }

 private:
  std::map<KernelVariant, std::size_t> places_;
  std::vector<WantedKernel> kernels_;
};

// What the kernels are built for: an architecture, with the figures of the config's own device where it is
// one of that architecture.
struct Target {
  const Architecture* architecture;
  SharedLimit shared;
  std::optional<i64> sm_count;  // of the config's device
};

Target target_of(const Architecture& architecture, const DeviceSettings& device) {
  const bool is_own = device.compute_capability == architecture.compute_capability;
  return {&architecture,
          shared_limit(architecture.shared_bytes_per_block, architecture.name,
                       is_own ? device.shared_memory_per_block_optin : std::nullopt),
          is_own ? std::optional(device.sm_count) : std::nullopt};
}

Result<std::vector<Target>> targets_of(const std::vector<std::string>& names, const DeviceSettings& device) {
  std::vector<Target> targets;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) ==
        names.begin() + static_cast<std::ptrdiff_t>(i))
      targets.push_back(target_of(*find_architecture(names[i]), device));
  }
  if (!targets.empty()) return targets;
  std::vector<std::string_view> known;
  for (const Architecture& architecture : architectures()) known.push_back(architecture.name);
  const std::string remedy = concat("name an architecture: --arch ", join(known, ", ", " or "));
  if (!device.compute_capability)
    return Error{ErrorCode::missing_field, "/device",
                 "the config does not state its device's compute_capability", remedy};
  const Architecture* own = architecture_of(*device.compute_capability);
  if (!own)
    return Error{ErrorCode::unsupported_architecture, "/device/compute_capability",
                 concat("kernels are not made for compute capability ", *device.compute_capability), remedy};
  return std::vector<Target>{target_of(*own, device)};
}

Table kernels_table() {
  Table table;
  table.key = "kernels";
  table.columns = {{"architecture", "ARCH"},
                   {"kernel", "KERNEL"},
                   {"plans", "PLANS"},
                   {"threads", "THREADS", ColumnKind::count},
                   {"registers", "REGISTERS", ColumnKind::count},
                   {"spill_bytes", "SPILLS", ColumnKind::count},
                   {"shared_bytes", "SHARED", ColumnKind::count},
                   {"shared_limit_bytes", "LIMIT", ColumnKind::count, Audience::programs},
                   {"blocks_per_sm", "BLOCKS/SM", ColumnKind::count},
                   {"resident_grid", "RESIDENT GRID", ColumnKind::count},
                   {"variant", "", ColumnKind::text, Audience::programs},
                   {"variant_in_short", "VARIANT", ColumnKind::text, Audience::people},
                   {"cubin_bytes", "CUBIN", ColumnKind::count, Audience::programs},
                   {"cubin_sha256", "", ColumnKind::text, Audience::programs},
                   {"source_sha256", "", ColumnKind::text, Audience::programs}};
  return table;
}

// "BLOCK=8 BITS=3": the defines that `shows` says yes to, by their place.
template <class Shows>
std::string defines_text(const KernelVariant& variant, const Shows& shows) {
  const KernelRow& row = row_of(variant.kernel);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < row.defines.size(); ++i) {
    if (shows(i)) parts.push_back(concat(row.defines[i], "=", variant.values[i]));
  }
  return join(parts, " ");
}

// Without what all of the kernel's variants here have in common.
std::string defines_in_short(const KernelVariant& variant, const std::vector<WantedKernel>& all) {
  return defines_text(variant, [&](std::size_t i) {
    return std::ranges::any_of(all, [&](const WantedKernel& other) {
      return other.variant.kernel == variant.kernel && other.variant.values[i] != variant.values[i];
    });
  });
}

// What one architecture's kernels came to.
struct Built {
  i64 kernels = 0;
  i64 failed = 0;    // do not compile
  i64 spilling = 0;  // registers
  i64 unfit = 0;     // take more than a multiprocessor has
  i64 from_cache = 0;
  i64 most_shared = 0;
};

Finding finding_of(std::string rule, std::string message, std::string remedy) {
  return {std::move(rule), "error", "", std::move(message), std::move(remedy)};
}

// The finding says the first complaint; a table holds all that the compiler said.
void add_failure(const std::string& kernel, const Error& error, Report& report) {
  if (report.tables.size() == 1) {
    Table table;
    table.key = "compiler_log";
    table.title = "what the compiler says";
    table.columns = {{"kernel", "", ColumnKind::text, Audience::programs}, {"text", "KERNEL, AND ITS LOG"}};
    report.tables.push_back(std::move(table));
  }
  std::string complaint;
  std::istringstream lines(error.message);
  for (std::string line; std::getline(lines, line);) {
    if (complaint.empty() && line.find("error") != std::string::npos) complaint = line;
    report.tables[1].rows.push_back({{kernel, std::move(line)}, {}});
  }
  report.findings.push_back(
      finding_of("does-not-compile",
                 concat("kernel ", kernel, complaint.empty() ? " does not compile" : concat(": ", complaint)),
                 error.help));
}

void add_kernel(const WantedKernel& wanted, const std::vector<WantedKernel>& all,
                const Result<CompiledVariant>& result, const Target& target, Built& built, Report& report) {
  const std::string name = concat(text_of(wanted.variant), " for ", target.architecture->name);
  ++built.kernels;
  if (!result) {
    ++built.failed;
    add_failure(name, result.error(), report);
    return;
  }
  const KernelRow& row = row_of(wanted.variant.kernel);
  const KernelResources& resources = result->kernel.resources;
  const i64 shared = resources.static_shared_bytes + shared_bytes_of(wanted.variant);
  const i64 spills = resources.spill_store_bytes + resources.spill_load_bytes;
  const bool has_room = shared <= target.shared.bytes;
  const i64 blocks = has_room ? resident_blocks(*target.architecture, resources.registers,
                                                threads_of(wanted.variant), shared)
                              : 0;
  built.most_shared = max_of(built.most_shared, shared);
  if (result->is_from_cache) ++built.from_cache;
  if (spills > 0) {
    ++built.spilling;
    report.findings.push_back(finding_of("spills",
                                         concat("kernel ", name, " spills ", resources.spill_store_bytes,
                                                " bytes a thread and reads ", resources.spill_load_bytes),
                                         "fewer live values or a smaller tile"));
  }
  if (!has_room) {
    ++built.unfit;
    report.findings.push_back(shared_memory_finding(name, wanted.variant.kernel, shared, target.shared, ""));
  } else if (blocks == 0) {
    ++built.unfit;
    report.findings.push_back(
        finding_of("not-resident",
                   concat("no block of kernel ", name, " fits a multiprocessor: ", threads_of(wanted.variant),
                          " threads of ", resources.registers, " registers"),
                   "fewer registers or threads"));
  }
  // Blocks that wait for each other have to be resident together.
  const bool has_limit = row.has_grid_barrier && target.sm_count;
  report.tables[0].rows.push_back(
      {{std::string(target.architecture->name), std::string(row.name), join(wanted.plans, ", "),
        threads_of(wanted.variant), resources.registers, spills, shared, target.shared.bytes, blocks,
        has_limit ? Cell(blocks * *target.sm_count) : Cell(),
        defines_text(wanted.variant, [](std::size_t) { return true; }), defines_in_short(wanted.variant, all),
        static_cast<i64>(result->kernel.cubin.size()), sha256_hex(result->kernel.cubin),
        result->source_digest},
       {}});
}

std::string_view verdict_word(const Built& built) {
  if (built.failed > 0) return "DOES NOT BUILD";
  if (built.unfit > 0) return "DOES NOT FIT";
  return built.spilling > 0 ? "SPILLS" : "BUILDS";
}

std::string verdict_of(const PlannedConfig& planned, const std::vector<Target>& targets, const Built& built,
                       const std::string& rest, NvrtcVersion version) {
  const Deployment& deployment = planned.config->deployment;
  std::vector<std::string> names;
  for (const Target& target : targets) names.emplace_back(target.architecture->name);
  const auto counted = [](i64 count, std::string_view what) {
    return count > 0 ? concat(", ", grouped(count), what) : std::string();
  };
  return concat(deployment.name ? concat(*deployment.name, ": ") : "", verdict_word(built), " for ",
                join(names, ", "), " · ", grouped(built.kernels), built.kernels == 1 ? " kernel" : " kernels",
                counted(built.failed, " fail"), counted(built.unfit, " take too much"), ", ",
                grouped(built.spilling), built.spilling > 0 ? " with spills" : " spills", " · at most ",
                grouped(built.most_shared), " B of shared memory a block · NVRTC ", version.major, ".",
                version.minor, rest);
}

Result<Report> compile_report(const PlannedConfig& planned, const std::vector<DeployedPlan>& plans,
                              const CompileOptions& options, Compiler& compiler) {
  const Deployment& deployment = planned.config->deployment;
  const DeviceSettings device = deployment.device.value_or(DeviceSettings{});
  const auto targets = targets_of(options.architectures, device);
  if (!targets) return targets.error();
  auto covered = covered_plans(planned, plans, options.plan, {"compile", "compiled"});
  if (!covered) return covered.error();

  Report report;
  const std::string rest = rest_text(covered->uncovered, covered->findings);
  report.findings = std::move(covered->findings);
  report.schema = "moeplan.compile/1";
  report.subject = subject_of(deployment);
  report.tables.push_back(kernels_table());
  WantedKernels wanted;
  const auto want = [&](const std::string& id, const std::vector<KernelVariant>& variants) {
    for (const KernelVariant& variant : variants) wanted.add(variant, id);
  };
  for (const DeployedPlan* plan : covered->plans)
    want(plan->id(), planned_kernels(plan->request(), plan->layout).variants);
  for (const DeployedIndexer* plan : covered->indexers)
    want(plan->request->id, planned_kernels(plan->request->indexer, *plan->layout).variants);
  const std::vector<KernelVariant> arena(kArenaKernels.begin(), kArenaKernels.end());
  for (const DeployedPlan* plan : covered->plans) want(plan->id(), arena);
  for (const DeployedIndexer* plan : covered->indexers) want(plan->request->id, arena);

  Built built;
  std::vector<KernelVariant> variants;
  for (const WantedKernel& kernel : wanted.all()) variants.push_back(kernel.variant);
  const i64 threads = options.threads > 0 ? options.threads : i64{std::thread::hardware_concurrency()};
  for (const Target& target : *targets) {
    ProgressLine progress(static_cast<i64>(variants.size()),
                          concat("kernels for ", target.architecture->name), !options.no_progress);
    auto results =
        compiler.compile(variants, *target.architecture, threads,
                         [&](std::size_t done, std::size_t) { progress.show(static_cast<i64>(done)); });
    if (!results) return results.error();
    for (std::size_t i = 0; i < variants.size(); ++i)
      add_kernel(wanted.all()[i], wanted.all(), (*results)[i], target, built, report);
  }
  log_info(concat(built.from_cache, " of ", built.kernels, " kernels from the cache"));
  note_kernel_dir(report, compiler);

  report.answered_no =
      std::ranges::any_of(report.findings, [](const Finding& finding) { return finding.level == "error"; });
  const NvrtcVersion version = compiler.nvrtc().version();
  report.verdict = verdict_of(planned, *targets, built, rest, version);
  report.facts = {{"name", deployment.name ? Cell(*deployment.name) : Cell()},
                  {"contract", planned.contract_names()},
                  {"builds", !report.answered_no},
                  {"nvrtc", concat(version.major, ".", version.minor)}};
  report.totals = {{"kernels", built.kernels},
                   {"failed", built.failed},
                   {"spilling", built.spilling},
                   {"unfit", built.unfit},
                   {"most_shared_bytes", built.most_shared}};
  return report;
}

}  // namespace

ExitCode run_compile(const CompileOptions& options) {
  // Looked for when the first config is read: a mistake in it is told ahead of a missing compiler.
  std::optional<Result<Compiler>> compiler;
  return answer_plans(options.configs, options.plan, PlanScope::kernels,
                      [&](const PlannedConfig& planned, const std::vector<DeployedPlan>& plans) {
                        if (!compiler) compiler.emplace(kernel_compiler(!options.no_cache));
                        if (!*compiler) return Result<Report>(compiler->error());
                        return compile_report(planned, plans, options, **compiler);
                      });
}

}  // namespace moeplan
