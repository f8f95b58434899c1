// Element types of planned tensors.
#pragma once

#include <string_view>

#include "planner/core/integer.hpp"

namespace moeplan {

// New types go to the end: request fields offer prefixes of the list.
enum class DType { float32, bfloat16, float16, int32, uint8, int64, uint64, float8_e4m3fn };

inline constexpr std::string_view kDTypeNames[] = {"float32", "bfloat16", "float16", "int32",
                                                   "uint8",   "int64",    "uint64",  "float8_e4m3fn"};

constexpr std::string_view name_of(DType dtype) { return kDTypeNames[static_cast<int>(dtype)]; }

// Bytes of one element.
constexpr i64 item_bytes(DType dtype) {
  switch (dtype) {
    case DType::int64:
    case DType::uint64:
      return 8;
    case DType::float32:
    case DType::int32:
      return 4;
    case DType::bfloat16:
    case DType::float16:
      return 2;
    case DType::uint8:
    case DType::float8_e4m3fn:
      return 1;
  }
  return 0;
}

}  // namespace moeplan
