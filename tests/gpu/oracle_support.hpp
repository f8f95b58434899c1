// What the tests of the kernels that judge others share: launches, and values on the device.
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/oracle/arguments.hpp"
#include "tests/gpu/gpu_tests.hpp"

namespace moeplan::test {

inline LaunchResolver& oracle_resolver() {
  static LaunchResolver all = gpu().resolver();
  return all;
}

template <class Arguments>
void launch_oracle(const KernelVariant& variant, const Arguments& arguments) {
  const ReadyKernel* kernel = must(oracle_resolver().find(variant, {}));
  CHECK(kernel->resources.spill_store_bytes + kernel->resources.spill_load_bytes == 0);
  must(gpu().launcher.launch(*kernel, {.x = 16}, arguments, nullptr));
}

// Values of one type in memory of the device.
template <class T>
class Room {
 public:
  explicit Room(i64 count)
      : count_(count),
        memory_(must(DeviceMemory::allocate(count * static_cast<i64>(sizeof(T)), "a test's values"))) {}
  explicit Room(const std::vector<T>& values) : Room(std::ssize(values)) {
    must(check_cuda(
        cudaMemcpy(memory_.data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice),
        "copying a test's values"));
  }
  T* get() const { return reinterpret_cast<T*>(memory_.data()); }
  std::vector<T> values() const {
    const auto bytes = must(bytes_at(memory_.data(), count_ * static_cast<i64>(sizeof(T))));
    std::vector<T> out(static_cast<std::size_t>(count_));
    std::copy_n(bytes.data(), bytes.size(), reinterpret_cast<unsigned char*>(out.data()));
    return out;
  }

 private:
  i64 count_;
  DeviceMemory memory_;
};

struct Scales {
  double low, high;
};
inline Room<HalfBits> random_room(i64 count, i64 seed, RandomKind kind, Scales scales = {}) {
  Room<HalfBits> room(count);
  launch_oracle(kRandomFill, RandomFillArguments{.out = room.get(),
                                                 .count = count,
                                                 .width = count,
                                                 .seed = seed,
                                                 .kind = kind,
                                                 .low = scales.low,
                                                 .high = scales.high});
  return room;
}

}  // namespace moeplan::test
