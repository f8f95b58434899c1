// The tensors of an arena, as JSON.
#pragma once

#include "cli/io/json_writer.hpp"
#include "planner/core/arena_layout.hpp"

namespace moeplan {

// "tensors": [{"name", "dtype", "shape", "offset", "bytes", "region"?, "fill"?}], in arena order.
void write_tensors(JsonWriter& json, const ArenaLayout& arena);

// "shape": [...]
void write_shape(JsonWriter& json, const Shape& shape);

}  // namespace moeplan
