// What the tests of MoE kernels on a GPU share: inputs, launches, and comparing what an arena holds with what
// it should.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/core/text.hpp"
#include "planner/moe/w4a16.hpp"
#include "runtime/moe/kernel_launch.hpp"
#include "runtime/oracle/half.hpp"
#include "runtime/validate/measurement.hpp"
#include "tests/gpu/gpu_tests.hpp"
#include "tests/random.hpp"

namespace moeplan::test {

using Bytes = std::vector<unsigned char>;

template <class T>
i64 bytes_of(const std::vector<T>& values) {
  return static_cast<i64>(values.size() * sizeof(T));
}

template <class T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::copy_n(bytes.data(), values.size() * sizeof(T), reinterpret_cast<unsigned char*>(values.data()));
  return values;
}

// A copy of host values in memory of their own.
template <class T>
class Uploaded {
 public:
  explicit Uploaded(const std::vector<T>& values)
      : memory_(must(DeviceMemory::allocate(bytes_of(values), "a test's input"))) {
    if (values.empty()) return;
    must(check_cuda(cudaMemcpy(memory_.data(), values.data(), static_cast<std::size_t>(bytes_of(values)),
                               cudaMemcpyHostToDevice),
                    "copying a test's input"));
  }
  const T* get() const { return reinterpret_cast<const T*>(memory_.data()); }

 private:
  DeviceMemory memory_;
};

inline LaunchResolver& resolver() {
  static LaunchResolver all = gpu().resolver();
  return all;
}

template <class Arguments>
void launch(const KernelLaunch<Arguments>& launch) {
  const ReadyKernel* kernel = must(resolver().find(launch.variant, {}));
  CHECK(kernel->resources.spill_store_bytes + kernel->resources.spill_load_bytes == 0);
  const Launcher& launcher = gpu().launcher;
  must(launcher.launch(*kernel, launcher.grid_of(*kernel, launch), launch.arguments, nullptr));
}

// What the arena holds behind a launch, tensor by tensor.
class Seen {
 public:
  Seen(const DeviceArena& arena) : arena_(arena) {}
  template <class T>
  std::vector<T> values(CoreTensor tensor) {
    const int index = find_tensor(arena_.placement(), name_of(tensor));
    REQUIRE(index != kNoTensor);
    const PlacedTensor& placed = arena_.placement().tensors[static_cast<std::size_t>(index)];
    return values_of<T>(must(bytes_at(arena_.allocation() + placed.begin, placed.bytes)));
  }

 private:
  const DeviceArena& arena_;
};

// ---- Comparing. ----

// Sums over pairs of a value and what it should be.
struct Difference {
  double error = 0, value = 0, expected = 0, both = 0;
  void add(double v, double e) {
    error += (v - e) * (v - e);
    value += v * v;
    expected += e * e;
    both += v * e;
  }
  // Not true for what is not a number.
  bool is_within(const Tolerance& tolerance) const {
    if (expected == 0) return error == 0;
    return std::sqrt(error / expected) <= tolerance.largest_l2 &&
           both / std::sqrt(value * expected) >= tolerance.least_cosine;
  }
  std::string text() const {
    return concat("relative error ", std::to_string(std::sqrt(error / expected)), ", cosine ",
                  std::to_string(both / std::sqrt(value * expected)));
  }
};

// Compares rows of a tensor and marks what they cover; what no row covers has to be poison.
template <class T>
class RowChecker {
 public:
  // Sixteen bits are a half, or a bf16 number where `is_bfloat16`.
  RowChecker(std::string name, std::vector<T> values, bool is_bfloat16 = false,
             const Tolerance& tolerance = kHalfTolerance)
      : name_(std::move(name)),
        values_(std::move(values)),
        covered_(values_.size()),
        is_bfloat16_(is_bfloat16),
        tolerance_(tolerance) {}

  // Covers, and compares unless there is nothing to compare with.
  template <class Expected>
  void row(i64 begin, const std::vector<Expected>& expected) {
    Difference difference;
    for (std::size_t i = 0; i < expected.size(); ++i)
      difference.add(value(values_.at(static_cast<std::size_t>(begin) + i)), value(expected[i]));
    whole_.error += difference.error;
    whole_.value += difference.value;
    whole_.expected += difference.expected;
    whole_.both += difference.both;
    if (!difference.is_within(tolerance_) && wrong_.empty())
      wrong_ = concat("row at element ", begin, ": ", difference.text());
    cover(begin, std::ssize(expected));
  }
  void cover(i64 begin, i64 count) {
    for (i64 i = begin; i < begin + count; ++i) covered_.at(static_cast<std::size_t>(i)) = true;
  }
  bool covers_any(i64 begin, i64 count) const {
    for (i64 i = begin; i < begin + count; ++i)
      if (covered_.at(static_cast<std::size_t>(i))) return true;
    return false;
  }
  std::vector<T> bytes_of_row(i64 begin, i64 count) const {
    return {values_.begin() + begin, values_.begin() + begin + count};
  }

  void finish() const {
    INFO(name_);
    i64 touched = 0;
    const Bytes poison(sizeof(T), 0xFF);
    for (std::size_t i = 0; i < values_.size(); ++i)
      touched += !covered_[i] && std::memcmp(&values_[i], poison.data(), sizeof(T)) != 0;
    CHECK(touched == 0);
    CHECK(wrong_ == "");
    INFO(whole_.text());
    CHECK(whole_.is_within(tolerance_));
  }

 private:
  double value(std::uint16_t bits) const {
    return is_bfloat16_ ? oracle::value_of_bfloat16(bits) : oracle::value_of_half(bits);
  }
  static double value(float number) { return static_cast<double>(number); }
  static double value(double number) { return number; }

  std::string name_;
  std::vector<T> values_;
  std::vector<bool> covered_;
  bool is_bfloat16_;
  Tolerance tolerance_;
  Difference whole_;
  std::string wrong_;
};

template <class T>
void check_equal_then_poison(const std::string& name, const std::vector<T>& values,
                             const std::vector<T>& expected) {
  INFO(name);
  REQUIRE(values.size() >= expected.size());
  const auto behind = values.begin() + std::ssize(expected);
  CHECK(std::vector<T>(values.begin(), behind) == expected);
  CHECK(std::count(behind, values.end(), T(-1)) == std::distance(behind, values.end()));
}

// Where the routes of `capacity` tokens go; fewer tokens have the first of these.
struct Routing {
  std::string name;
  i64 id_bytes;
  std::vector<i64> ids;
  std::vector<float> weights;
  std::optional<std::vector<int>> map;

  const std::vector<int>* map_or_null() const { return map ? &*map : nullptr; }
};

// Of a layer's sizes: capacity, top_k, experts and router_experts. The same in every run.
template <class Sizes>
std::vector<Routing> routings_of(const Sizes& s) {
  Random random;
  Routing uniform{"uniform", 4, {}, {}, {}}, one{"all to one", 8, {}, {}, {}},
      invalid{"invalid", 8, {}, {}, {}};
  for (i64 token = 0; token < s.capacity; ++token) {
    std::set<i64> chosen;
    while (std::ssize(chosen) < s.top_k) chosen.insert(random.in(0, s.router_experts - 1));
    uniform.ids.insert(uniform.ids.end(), chosen.begin(), chosen.end());
    for (i64 slot = 0; slot < s.top_k; ++slot) {
      one.ids.push_back(s.experts - 1);
      // Every fourth token goes nowhere at all.
      const bool is_lost = token % 4 == 3 || random.in(0, 2) == 0;
      invalid.ids.push_back(is_lost ? random.of({-1, s.router_experts, i64{1} << 40, i64{-1} << 33, 1 << 20})
                                    : random.in(0, s.router_experts - 1));
    }
  }
  std::vector<Routing> routings{uniform, one, invalid};
  for (Routing& routing : routings) {
    for (std::size_t i = 0; i < routing.ids.size(); ++i)
      routing.weights.push_back(static_cast<float>(random.in(1, 1000)) / 1000);
    if (s.router_experts == s.experts) continue;
    // Some of the router's experts are this rank's, in another order; of the others some are marked by -1,
    // some by what is no expert at all.
    routing.name += ", mapped";
    routing.map.emplace();
    for (i64 expert = 0; expert < s.router_experts; ++expert)
      routing.map->push_back(expert % 3 == 0 || expert == s.experts - 1
                                 ? static_cast<int>((expert * 2 + 1) % s.experts)
                                 : (expert % 3 == 1 ? -1 : 1000));
  }
  return routings;
}

}  // namespace moeplan::test
