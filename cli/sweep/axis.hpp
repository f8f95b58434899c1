// An axis of a sweep: the field it changes, and the values it gives it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/integer.hpp"
#include "planner/core/result.hpp"

namespace moeplan {

enum class AxisKind { capacity, block, max_tokens, tp, sms, contract, pointer };

// A short name for what is swept most; every other field is a JSON pointer.
struct AxisName {
  std::string_view name;
  AxisKind kind;
  i64 min, max;           // of its numbers; no numbers where max is 0
  std::string_view word;  // the one word it takes beside numbers
  std::string_view doc;
};
std::span<const AxisName> axis_names();

struct AxisValue {
  bool is_number = false;
  i64 number = 0;
  std::string_view text;  // where it is no number; as written

  std::string written() const { return is_number ? std::to_string(number) : std::string(text); }
};

// One value, or a run of them: a range of a billion values takes no more memory than one of two.
struct AxisRun {
  bool is_number = false;
  i64 first = 0;
  i64 step = 0;
  i64 count = 1;
  std::string text;
  i64 begin = 0;  // values of its axis ahead of it
};

struct Axis {
  std::string name;  // a short name, or a JSON pointer
  AxisKind kind{};
  std::vector<AxisRun> runs;
  i64 size = 0;

  AxisValue at(i64 index) const;
  bool is_numeric() const;
};

// "capacity=512,1024", "/device/sm_count=100..188:+4", "capacity=256..8192:x2".
Result<Axis> parse_axis(std::string_view text);

// Points of all axes together; at most 2^62, which stands for anything above too.
i64 grid_points(std::span<const Axis> axes);

// Index into axis `axis` of the point `point`: the last axis runs fastest.
i64 axis_index(std::span<const Axis> axes, std::size_t axis, i64 point);

}  // namespace moeplan
