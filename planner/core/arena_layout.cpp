#include "planner/core/arena_layout.hpp"

namespace moeplan {

DType resolve(ElementType type, const ElementTypes& types) {
  switch (type) {
    case ElementType::cache:
      return types.cache;
    case ElementType::io:
      return types.io;
    case ElementType::logits:
      return types.logits;
    case ElementType::float32:
      return DType::float32;
    case ElementType::float16:
      return DType::float16;
    case ElementType::int32:
      return DType::int32;
    case ElementType::uint8:
      return DType::uint8;
    case ElementType::int64:
      return DType::int64;
    case ElementType::uint64:
      return DType::uint64;
  }
  fail_check("element type", "unknown element type", __FILE__, __LINE__);
}

void place(ArenaLayout& arena, TensorSpec tensor, i64 alignment) {
  tensor.bytes = tensor.shape.elements() * item_bytes(tensor.dtype);
  tensor.offset = align_up(arena.end, max_of(alignment, item_bytes(tensor.dtype)));
  arena.end = tensor.offset + tensor.bytes;
  arena.tensors.push_back(tensor);
}

}  // namespace moeplan
