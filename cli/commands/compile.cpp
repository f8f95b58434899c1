// moeplan compile: do this deployment's kernels build for an architecture, and what do they take of a
// multiprocessor? Needs no GPU.
#include <algorithm>
#include <map>
#include <thread>

#include "cli/commands/finish.hpp"
#include "cli/commands/kernel_compiler.hpp"
#include "cli/commands/options.hpp"
#include "cli/commands/plan_choice.hpp"
#include "cli/log.hpp"
#include "cli/progress.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/launch_findings.hpp"
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
  i64 shared_limit;             // bytes a block
  std::optional<i64> sm_count;  // of the config's device
};

Target target_of(const Architecture& architecture, const DeviceSettings& device) {
  Target target{&architecture, architecture.shared_bytes_per_block, std::nullopt};
  if (device.compute_capability != architecture.compute_capability) return target;
  target.sm_count = device.sm_count;
  if (device.shared_memory_per_block_optin)
    target.shared_limit = min_of(target.shared_limit, *device.shared_memory_per_block_optin);
  return target;
}

Result<std::vector<Target>> targets_of(const std::vector<std::string>& names, const DeviceSettings& device) {
  std::vector<Target> targets;
  for (const std::string& name : names) targets.push_back(target_of(*find_architecture(name), device));
  if (!targets.empty()) return targets;
  const Architecture* own = device.compute_capability ? architecture_of(*device.compute_capability) : nullptr;
  if (own) return std::vector<Target>{target_of(*own, device)};
  return Error{ErrorCode::unsupported_architecture,
               device.compute_capability ? "/device/compute_capability" : "",
               device.compute_capability
                   ? concat("kernels are not made for compute capability ", *device.compute_capability)
                   : "the config does not state its device's compute_capability",
               "name an architecture: --arch sm_120"};
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
                   {"grid_barrier", "GRID BARRIER"},
                   {"variant", "VARIANT"},
                   {"cubin_bytes", "CUBIN", ColumnKind::count, Audience::programs},
                   {"cubin_sha256", "", ColumnKind::text, Audience::programs},
                   {"source_sha256", "", ColumnKind::text, Audience::programs}};
  return table;
}

// "BLOCK=8 BITS=3", without the kernel's name.
std::string defines_text(const KernelVariant& variant) {
  const std::string text = text_of(variant);
  const std::size_t blank = text.find(' ');
  return blank == std::string::npos ? "" : text.substr(blank + 1);
}

// What one architecture's kernels came to.
struct Built {
  i64 kernels = 0, failed = 0, spilling = 0;
  i64 from_cache = 0;
  i64 most_shared = 0;
};

Finding finding_of(std::string rule, std::string message, std::string remedy) {
  return {std::move(rule), "error", "", std::move(message), std::move(remedy)};
}

void add_kernel(const WantedKernel& wanted, const Result<CompiledVariant>& result, const Target& target,
                Built& built, Report& report) {
  const std::string name = concat(text_of(wanted.variant), " for ", target.architecture->name);
  ++built.kernels;
  if (!result) {
    ++built.failed;
    report.findings.push_back(finding_of("does-not-compile", result.error().message, result.error().help));
    return;
  }
  const KernelRow& row = row_of(wanted.variant.kernel);
  const KernelResources& resources = result->kernel.resources;
  const i64 shared = resources.static_shared_bytes + shared_bytes_of(wanted.variant);
  const i64 spills = resources.spill_store_bytes + resources.spill_load_bytes;
  const i64 blocks = resident_blocks(*target.architecture, resources.registers, row.threads, shared);
  built.most_shared = max_of(built.most_shared, shared);
  if (result->is_from_cache) ++built.from_cache;
  if (spills > 0) {
    ++built.spilling;
    report.findings.push_back(finding_of("spills",
                                         concat("kernel ", name, " spills ", resources.spill_store_bytes,
                                                " bytes a thread and reads ", resources.spill_load_bytes),
                                         "fewer live values or a smaller tile"));
  }
  if (shared > target.shared_limit) {
    ++built.failed;
    report.findings.push_back(
        finding_of("shared-memory",
                   concat("kernel ", name, " takes ", grouped(shared), " B of shared memory a block, ",
                          grouped(target.shared_limit), " B are to be had"),
                   "a smaller tile, or fewer stages"));
  } else if (blocks == 0) {
    ++built.failed;
    report.findings.push_back(
        finding_of("not-resident",
                   concat("no block of kernel ", name, " fits a multiprocessor: ", row.threads,
                          " threads of ", resources.registers, " registers"),
                   "fewer registers or threads"));
  }
  std::string barrier = row.has_grid_barrier ? "yes" : "";
  if (row.has_grid_barrier && target.sm_count)
    barrier = concat("grid <= ", grouped(blocks * *target.sm_count));
  report.tables[0].rows.push_back(
      {{std::string(target.architecture->name), std::string(row.name), join(wanted.plans, ", "), row.threads,
        resources.registers, spills, shared, target.shared_limit, blocks, barrier,
        defines_text(wanted.variant), static_cast<i64>(result->kernel.cubin.size()),
        sha256_hex(result->kernel.cubin), result->source_digest},
       {}});
}

std::string verdict_of(const PlannedConfig& planned, const std::vector<Target>& targets, const Built& built,
                       bool is_no, NvrtcVersion version) {
  const Deployment& deployment = planned.config->deployment;
  std::vector<std::string> names;
  for (const Target& target : targets) names.emplace_back(target.architecture->name);
  return concat(
      deployment.name ? concat(*deployment.name, ": ") : "", is_no ? "DOES NOT BUILD" : "BUILDS", " for ",
      join(names, ", "), " · ", grouped(built.kernels), built.kernels == 1 ? " kernel, " : " kernels, ",
      built.failed > 0 ? concat(grouped(built.failed), " failed, ") : "",
      built.spilling > 0 ? concat(grouped(built.spilling), " with spills") : "0 spills", " · at most ",
      grouped(built.most_shared), " B of shared memory a block · NVRTC ", version.major, ".", version.minor);
}

// An error that is no mistake of the command line, though it points into no config.
Error about_the_compiler(Error error) {
  error.pointer = "/";
  return error;
}

Result<Report> compile_report(const PlannedConfig& planned, const std::vector<DeployedPlan>& plans,
                              const CompileOptions& options, Compiler& compiler) {
  const Deployment& deployment = planned.config->deployment;
  const DeviceSettings device = deployment.device.value_or(DeviceSettings{});
  const auto targets = targets_of(options.architectures, device);
  if (!targets) return targets.error();

  Report report;
  report.schema = "moeplan.compile/1";
  report.subject = subject_of(deployment);
  report.tables.push_back(kernels_table());
  WantedKernels wanted;
  std::vector<std::string> covered;
  for (const DeployedPlan& plan : plans) {
    if (!is_chosen(plan.id(), options.plan)) continue;
    // The tiles of a plan follow from the device it is made for, whatever architecture compiles it.
    const i64 shared =
        device.shared_memory_per_block_optin.value_or(targets->front().architecture->shared_bytes_per_block);
    const PlannedKernels kernels = planned_kernels(plan.request(), plan.layout, shared);
    if (!kernels.missing.empty()) {
      report.findings.push_back({"no-kernels", "warning", plan.origin.config_pointer(""),
                                 concat(plan_name(plan.id()), " is not compiled: ", kernels.missing), ""});
      continue;
    }
    covered.push_back(plan.id());
    for (const KernelVariant& variant : kernels.variants) wanted.add(variant, plan.id());
  }
  if (covered.empty())
    return Error{ErrorCode::launch_not_modelled, "/",
                 "no plan of this config has kernels in this build, so there is nothing to compile",
                 report.findings.empty() ? "it has no fused-MoE plan" : report.findings.front().message};
  for (const std::string& plan : covered) {
    for (const KernelVariant& variant : kArenaKernels) wanted.add(variant, plan);
  }

  Built built;
  std::vector<KernelVariant> variants;
  for (const WantedKernel& kernel : wanted.all()) variants.push_back(kernel.variant);
  const int threads =
      static_cast<int>(options.threads > 0 ? options.threads : i64{std::thread::hardware_concurrency()});
  for (const Target& target : *targets) {
    ProgressLine progress(static_cast<i64>(variants.size()),
                          concat("kernels for ", target.architecture->name), !options.no_progress);
    auto results =
        compiler.compile(variants, *target.architecture, threads,
                         [&](std::size_t done, std::size_t) { progress.show(static_cast<i64>(done)); });
    if (!results) return about_the_compiler(results.error());
    for (std::size_t i = 0; i < variants.size(); ++i)
      add_kernel(wanted.all()[i], (*results)[i], target, built, report);
  }
  log_info(concat(built.from_cache, " of ", built.kernels, " kernels from the cache"));

  report.answered_no =
      std::ranges::any_of(report.findings, [](const Finding& finding) { return finding.level == "error"; });
  const NvrtcVersion version = compiler.nvrtc().version();
  report.verdict = verdict_of(planned, *targets, built, report.answered_no, version);
  report.facts = {{"name", deployment.name ? Cell(*deployment.name) : Cell()},
                  {"contract", planned.contract_names()},
                  {"builds", !report.answered_no},
                  {"nvrtc", concat(version.major, ".", version.minor)}};
  report.totals = {{"kernels", built.kernels},
                   {"failed", built.failed},
                   {"spilling", built.spilling},
                   {"most_shared_bytes", built.most_shared}};
  if (!planned.indexer_plans.empty())
    report.notes.push_back("this build has no kernels of its own for indexer plans: they are not compiled");
  if (!planned.mixed_parts.empty())
    report.notes.push_back("this build has no one-grid kernels of mixed bit widths: they are not compiled");
  return report;
}

}  // namespace

ExitCode run_compile(const CompileOptions& options) {
  auto compiler = kernel_compiler(!options.no_cache);
  if (!compiler) {
    complain(compiler.error());
    return ExitCode::no_device;
  }
  return answer_plans(options.configs, options.plan,
                      [&](const PlannedConfig& planned, const std::vector<DeployedPlan>& plans) {
                        return compile_report(planned, plans, options, *compiler);
                      });
}

}  // namespace moeplan
