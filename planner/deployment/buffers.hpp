// Buffers that an engine allocates one by one, outside any arena.
#pragma once

#include <string_view>
#include <vector>

#include "planner/core/arena_layout.hpp"

namespace moeplan {

// Texts are static. The caching allocator rounds each buffer up to 512 B; `bytes` is exact.
struct Buffer {
  std::string_view name;
  std::string_view dtype;
  std::string_view formula;  // in the terms of docs/memory.md
  Shape shape;
  i64 bytes;
};

inline Buffer buffer(std::string_view name, std::string_view dtype, i64 item_bytes, Shape shape,
                     std::string_view formula) {
  return {name, dtype, formula, shape, shape.elements() * item_bytes};
}

inline i64 total_bytes(const std::vector<Buffer>& buffers) {
  i64 bytes = 0;
  for (const Buffer& b : buffers) bytes += b.bytes;
  return bytes;
}

}  // namespace moeplan
