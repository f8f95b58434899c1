#include "runtime/device/scratch_binding.hpp"

#include <utility>

#include "runtime/arena/scratch_choice.hpp"
#include "runtime/device/launcher.hpp"

namespace moeplan {

Result<std::byte*> ScratchBinding::bind(void* provided, i64 provided_bytes, void* stream) {
  const bool is_too_small = provided_bytes < planned_bytes_;
  // A buffer that is large enough costs no question to the device.
  const auto use =
      choose_scratch(plan_, planned_bytes_, provided_bytes, is_too_small && Launcher::is_capturing(stream));
  if (!use) return use.error();
  if (*use == ScratchUse::provided) return static_cast<std::byte*>(provided);

  if (!std::exchange(has_warned_, true)) warn_(scratch_warning(plan_, planned_bytes_, provided_bytes));
  if (!own_) {
    auto memory = DeviceMemory::allocate(planned_bytes_, plan_);
    if (!memory) return memory.error();
    own_ = std::move(*memory);
  }
  return own_->data();
}

}  // namespace moeplan
