// What the driver says of this machine's GPUs, through libnvidia-ml loaded at run time: no headers, no link.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "planner/core/integer.hpp"

namespace moeplan {

struct GpuMemory {
  std::string name;
  i64 total_bytes = 0;
  i64 free_bytes = 0;
};

// The GPUs in the driver's order, or why there are none.
std::variant<std::vector<GpuMemory>, std::string> probe_gpus();

// Asks one GPU for the clock of its multiprocessors, again and again while something runs there.
class SmClock {
 public:
  // `pci_bus_id`: as the CUDA runtime prints it, "0000:1b:00.0". Or why it cannot be asked.
  static std::variant<SmClock, std::string> open(const std::string& pci_bus_id);

  // Of now; none where the driver does not say.
  std::optional<i64> mhz() const;

 private:
  struct Session;
  explicit SmClock(std::shared_ptr<const Session> session) : session_(std::move(session)) {}
  std::shared_ptr<const Session> session_;
};

// The driver's own version, such as "580.159.04"; "" without one.
std::string driver_version();

}  // namespace moeplan
