#include "cli/commands/shared_limit.hpp"

#include "planner/core/text.hpp"

namespace moeplan {

SharedLimit shared_limit(i64 machine_bytes, std::string_view machine, std::optional<i64> of_config) {
  if (of_config.value_or(machine_bytes) >= machine_bytes)
    return {machine_bytes, concat("the limit of ", machine), ""};
  constexpr std::string_view kPointer = "/device/shared_memory_per_block_optin";
  return {*of_config, "the config's shared_memory_per_block_optin", std::string(kPointer)};
}

Finding shared_memory_finding(std::string_view name, KernelId kernel, i64 bytes, const SharedLimit& limit,
                              const std::string& pointer) {
  return {
      "shared-memory", "error", limit.pointer.empty() ? pointer : limit.pointer,
      concat("kernel ", name, " takes ", grouped(bytes), " B of shared memory a block, ",
             grouped(limit.bytes), " B are to be had: ", limit.source),
      concat("a device with more", row_of(kernel).shared_depends_on_block ? ", or another block size" : "")};
}

}  // namespace moeplan
