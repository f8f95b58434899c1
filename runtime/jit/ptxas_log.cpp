#include "runtime/jit/ptxas_log.hpp"

#include <charconv>
#include <string>

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// The number that stands in front of `unit`, such as 48 in "used 48 registers".
std::optional<i64> number_before(std::string_view line, std::string_view unit) {
  const std::size_t at = line.find(unit);
  if (at == std::string_view::npos) return {};
  std::size_t from = at;
  while (from > 0 && line[from - 1] >= '0' && line[from - 1] <= '9') --from;
  i64 number = 0;
  const auto [end, error] = std::from_chars(line.data() + from, line.data() + at, number);
  if (error != std::errc() || end != line.data() + at) return {};
  return number;
}

std::string_view next_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

}  // namespace

std::optional<KernelResources> parse_ptxas_log(std::string_view log, std::string_view entry) {
  const std::string compiling = concat("Compiling entry function '", entry, "'");
  const std::string properties = concat("Function properties for ", entry);
  bool is_ours = false, has_frame = false, has_registers = false;
  KernelResources resources;
  while (!log.empty()) {
    const std::string_view line = next_line(log);
    if (line.find("Compiling entry function") != std::string_view::npos)
      is_ours = line.find(compiling) != std::string_view::npos;
    if (!is_ours) continue;
    if (line.ends_with(properties)) {
      const std::string_view frame = next_line(log);
      const auto stack = number_before(frame, " bytes stack frame");
      const auto stores = number_before(frame, " bytes spill stores");
      const auto loads = number_before(frame, " bytes spill loads");
      if (!stack || !stores || !loads) return {};
      resources.stack_bytes = *stack;
      resources.spill_store_bytes = *stores;
      resources.spill_load_bytes = *loads;
      has_frame = true;
    } else if (const auto registers = number_before(line, " registers")) {
      resources.registers = *registers;
      resources.static_shared_bytes = number_before(line, " bytes smem").value_or(0);
      has_registers = true;
    }
  }
  if (!has_frame || !has_registers) return {};
  return resources;
}

}  // namespace moeplan
