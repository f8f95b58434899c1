// moeplan devices: the devices that travel in the binary, and with --probe the GPUs of this machine.
#include <cstdio>

#include "cli/commands/finish.hpp"
#include "cli/commands/gpu_table.hpp"
#include "cli/commands/options.hpp"
#include "cli/import/shipped.hpp"
#include "runtime/nvml.hpp"
#include "cli/render/text.hpp"
#include "planner/core/text.hpp"

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

}  // namespace

ExitCode run_devices(const DevicesOptions& options) {
  Report report;
  report.schema = "moeplan.devices/1";
  report.tables.push_back(shipped_table());
  report.verdict = concat(report.tables[0].rows.size(), " devices are known by name: --device NAME, or copy ",
                          "configs/devices/NAME.json");
  if (options.probe) {
    auto probed = probe_gpus();
    if (const auto* reason = std::get_if<std::string>(&probed)) {
      std::fprintf(stderr, "error[no_device]: %s\n", printable(*reason).c_str());
      return ExitCode::no_device;
    }
    report.tables.push_back(gpu_table("gpus", "this machine, as the driver says", std::get<0>(probed)));
  }
  report.notes.push_back("the sizes of a plan follow from sm_count; state the one of the device that runs");
  return finish({&report, 1}, {}, options.report);
}

}  // namespace moeplan
