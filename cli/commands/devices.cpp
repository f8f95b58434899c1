// moeplan devices: the devices that travel in the binary, and with --probe the GPUs of this machine and what
// moeplan can do here.

#include "cli/commands/finish.hpp"
#include "cli/commands/gpu_table.hpp"
#include "cli/commands/options.hpp"
#include "cli/import/shipped.hpp"
#include "planner/core/text.hpp"
#include "runtime/device/device.hpp"
#include "runtime/jit/nvrtc.hpp"
#include "runtime/nvml.hpp"

namespace moeplan {
namespace {

Table shipped_table() {
  Table table;
  table.key = "devices";
  table.columns = {{"name", "DEVICE"},
                   {"compute_capability", "COMPUTE CAPABILITY"},
                   {"sm_count", "SMs", ColumnKind::count},
                   {"shared_memory_per_block_optin", "SHARED MEMORY", ColumnKind::count},
                   {"memory_bandwidth_gb_s", "GB/s", ColumnKind::count},
                   {"memory", "MEMORY"},
                   {"source", "", ColumnKind::text, Audience::programs}};
  const auto number = [](const std::optional<i64>& value) { return value ? Cell(*value) : Cell(); };
  const auto text = [](const std::optional<std::string>& value) { return value ? Cell(*value) : Cell(); };
  for (const auto& [stem, device] : shipped_device_settings())
    table.rows.push_back({{std::string(stem), text(device.compute_capability), device.sm_count,
                           number(device.shared_memory_per_block_optin), number(device.memory_bandwidth_gb_s),
                           text(device.memory_note), text(device.source)},
                          {}});
  return table;
}

// The shipped devices that plan like a GPU: the same architecture, multiprocessors and shared memory.
std::string shipped_names_of(const GpuProfile& gpu) {
  std::vector<std::string_view> names;
  for (const auto& [stem, device] : shipped_device_settings()) {
    if (device.compute_capability == gpu.compute_capability && device.sm_count == gpu.sm_count &&
        device.shared_memory_per_block_optin == gpu.shared_bytes_per_block)
      names.push_back(stem);
  }
  return join(names, ", ");
}

Table profiles_table(std::span<const GpuProfile> gpus) {
  Table table;
  table.key = "profiles";
  table.title = "this machine's GPUs, as a config's device states them";
  table.columns = {{"index", "GPU", ColumnKind::count},
                   {"name", ""},
                   {"compute_capability", "COMPUTE CAPABILITY"},
                   {"sm_count", "SMs", ColumnKind::count},
                   {"shared_memory_per_block_optin", "SHARED MEMORY", ColumnKind::count},
                   {"shared_memory_per_sm", "OF AN SM", ColumnKind::count},
                   {"l2_bytes", "L2", ColumnKind::count},
                   {"total_bytes", "MEMORY", ColumnKind::count},
                   {"shipped_as", "PLANS LIKE"}};
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const GpuProfile& gpu = gpus[i];
    table.rows.push_back(
        {{static_cast<i64>(i), gpu.name, gpu.compute_capability, gpu.sm_count, gpu.shared_bytes_per_block,
          gpu.shared_bytes_per_sm, gpu.l2_bytes, gpu.memory_bytes, shipped_names_of(gpu)},
         {}});
  }
  return table;
}

// What moeplan can do here, and what is missing for the rest.
Table levels_table(const Result<Nvrtc>& nvrtc, const Result<std::vector<GpuProfile>>& gpus) {
  Table table;
  table.key = "levels";
  table.title = "what moeplan can do here";
  table.columns = {{"stage", "TO"}, {"ready", "READY"}, {"with", "WITH, OR WHAT IS MISSING"}};
  table.rows.push_back({{std::string("plan"), true, std::string("this binary alone")}, {}});
  table.rows.push_back(
      {{std::string("compile"), static_cast<bool>(nvrtc),
        nvrtc ? concat("NVRTC ", nvrtc->version().major, ".", nvrtc->version().minor, ", ", nvrtc->path())
              // The other lines say where it was looked for.
              : concat(first_line(nvrtc.error().message), "; ", nvrtc.error().help)},
       {}});
  const bool runs = gpus && nvrtc;
  table.rows.push_back(
      {{std::string("run"), runs,
        !gpus  ? concat(gpus.error().message, "; ", gpus.error().help)
        : runs ? concat(gpus->size() == 1 ? std::string("a GPU") : concat(gpus->size(), " GPUs"),
                        ", CUDA runtime ", cuda_runtime_version(), ", driver for CUDA up to ",
                        cuda_driver_version())
               : std::string("kernels, which NVRTC has to compile")},
       {}});
  return table;
}

}  // namespace

ExitCode run_devices(const DevicesOptions& options) {
  Report report;
  report.schema = "moeplan.devices/1";
  report.tables.push_back(shipped_table());
  report.verdict = concat(report.tables[0].rows.size(), " devices are known by name: --device NAME, or copy ",
                          "configs/devices/NAME.json");
  report.notes.push_back("the sizes of a plan follow from sm_count; state the one of the device that runs");
  if (!options.probe) return finish({&report, 1}, {}, options.report);

  const auto nvrtc = Nvrtc::load(read_runtime_environment());
  const auto gpus = gpu_profiles();
  if (auto memory = probe_gpus(); std::holds_alternative<std::vector<GpuMemory>>(memory))
    report.tables.push_back(gpu_table("gpus", "this machine, as the driver says", std::get<0>(memory)));
  if (gpus) report.tables.push_back(profiles_table(*gpus));
  report.tables.push_back(levels_table(nvrtc, gpus));
  report.verdict = concat("this machine: plan yes · compile ", nvrtc ? "yes" : "no", " · run ",
                          gpus && nvrtc ? "yes" : "no");
  if (!nvrtc) report.notes.push_back(nvrtc.error().message);
  const ExitCode code = finish({&report, 1}, {}, options.report);
  if (code != ExitCode::ok || gpus) return code;
  complain(gpus.error());
  return ExitCode::no_device;
}

}  // namespace moeplan
