#include "runtime/jit/architecture.hpp"

#include <algorithm>
#include <iterator>

namespace moeplan {
namespace {

constexpr i64 kKiB = 1024;
constexpr Architecture kArchitectures[] = {
    {"sm_80", "8.0", 164 * kKiB, 163 * kKiB, 64, 32, false, false},
    {"sm_86", "8.6", 100 * kKiB, 99 * kKiB, 48, 16, false, false},
    {"sm_89", "8.9", 100 * kKiB, 99 * kKiB, 48, 24, false, false},
    {"sm_90", "9.0", 228 * kKiB, 227 * kKiB, 64, 32, true, true},
    {"sm_100", "10.0", 228 * kKiB, 227 * kKiB, 64, 32, true, true},
    {"sm_120", "12.0", 100 * kKiB, 99 * kKiB, 48, 24, true, true},
    {"sm_121", "12.1", 100 * kKiB, 99 * kKiB, 48, 24, true, true},
};

// The same on all of them.
constexpr i64 kRegistersPerSm = 64 * kKiB;
constexpr i64 kRegisterUnit = 256;             // a warp's registers are handed out in such portions
constexpr i64 kSharedUnit = 128;               // bytes
constexpr i64 kReservedSharedPerBlock = kKiB;  // by the system
constexpr i64 kWarpThreads = 32;
constexpr i64 kQuartersPerSm = 4;  // each with its own registers: warps of a block spread over them

}  // namespace

std::span<const Architecture> architectures() { return kArchitectures; }

const Architecture* find_architecture(std::string_view name) {
  const auto* found = std::ranges::find(kArchitectures, name, &Architecture::name);
  return found == std::end(kArchitectures) ? nullptr : found;
}

const Architecture* architecture_of(std::string_view compute_capability) {
  const auto* found =
      std::ranges::find(kArchitectures, compute_capability, &Architecture::compute_capability);
  return found == std::end(kArchitectures) ? nullptr : found;
}

i64 resident_blocks(const Architecture& architecture, i64 registers, i64 threads, i64 shared_bytes) {
  if (shared_bytes > architecture.shared_bytes_per_block) return 0;
  const i64 warps = ceil_div(threads, kWarpThreads);
  const i64 warp_registers = align_up(max_of(registers, 1) * kWarpThreads, kRegisterUnit);
  const i64 warps_by_registers = kRegistersPerSm / kQuartersPerSm / warp_registers * kQuartersPerSm;
  const i64 block_shared = align_up(shared_bytes, kSharedUnit) + kReservedSharedPerBlock;
  return std::min({architecture.blocks_per_sm, architecture.warps_per_sm / warps, warps_by_registers / warps,
                   architecture.shared_bytes_per_sm / block_shared});
}

}  // namespace moeplan
