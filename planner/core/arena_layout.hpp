// ArenaLayout: the tensors of one scratch buffer with their offsets, and the functions that place them.
#pragma once

#include <span>
#include <string_view>

#include "planner/core/dtype.hpp"
#include "planner/core/fixed_vector.hpp"
#include "planner/core/integer.hpp"

namespace moeplan {

// Which part of an arena a tensor belongs to.
enum class Region { route, core, whole };  // whole: the arena has no parts
inline constexpr std::string_view kRegionNames[] = {"route", "core", "whole"};
constexpr std::string_view name_of(Region region) { return kRegionNames[static_cast<int>(region)]; }

// What decided a size that has a bound.
enum class Bound {
  none,     // the formula has no bound
  columns,  // split-K scratch: every element of every route slot is staged once
  sm_cap,   // split-K scratch: saturated at four live partial tiles a multiprocessor
};
inline constexpr std::string_view kBoundNames[] = {"none", "columns", "sm_cap"};
constexpr std::string_view name_of(Bound bound) { return kBoundNames[static_cast<int>(bound)]; }

// Elements along each dimension; at most four.
struct Shape {
  i64 dims[4];
  int rank;

  constexpr i64 elements() const {
    i64 product = 1;
    for (int i = 0; i < rank; ++i) product *= dims[i];
    return product;
  }
};
constexpr Shape shape(i64 a) { return {{a, 1, 1, 1}, 1}; }
constexpr Shape shape(i64 a, i64 b) { return {{a, b, 1, 1}, 2}; }
constexpr Shape shape(i64 a, i64 b, i64 c) { return {{a, b, c, 1}, 3}; }

// What the binding writes into a tensor once, before any launch.
enum class FillKind { none, value, own_address };
struct Fill {
  FillKind kind = FillKind::none;
  i64 value = 0;
};

// The offset of a tensor that lives outside any arena.
constexpr i64 kOutsideArena = -1;

// One placed tensor. Texts are static.
struct TensorSpec {
  std::string_view name;
  std::string_view formula;  // element count in the terms of docs/contracts.md
  DType dtype;
  Region region;
  Bound bound;
  Shape shape;
  i64 offset;  // bytes from the start of the arena
  i64 bytes;   // exact, not rounded
  Fill fill = {};
};

struct ArenaLayout {
  FixedVector<TensorSpec, 40> tensors;  // in arena order
  i64 end = 0;                          // bytes up to the end of the last tensor
  bool keeps_tensors = true;            // false: only `end` is wanted, `tensors` stays empty
};

// Element types that depend on the request, resolved when a tensor is placed.
enum class ElementType { cache, io, logits, float32, float16, int32, uint8, int64, uint64 };

// What the request makes of the variable element types.
struct ElementTypes {
  DType cache;   // intermediate caches
  DType io;      // activations in and out
  DType logits;  // router logits
};

// How one tensor follows from the sizes of its plan. A contract lists rules in arena order.
template <class Sizes>
struct TensorRule {
  std::string_view name;
  ElementType type;
  Shape (*shape)(const Sizes&);
  std::string_view formula;
  Bound (*bound)(const Sizes&) = nullptr;
};

constexpr DType resolve(ElementType type, const ElementTypes& types) {
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
  return DType::uint8;
}

// Places the tensor of one rule at the next multiple of max(alignment, item size): the one place where
// offsets come from.
template <class Sizes>
void place(ArenaLayout& arena, const TensorRule<Sizes>& rule, const Sizes& sizes, const ElementTypes& types,
           Region region, i64 alignment) {
  const Shape shape = rule.shape(sizes);
  const DType dtype = resolve(rule.type, types);
  const i64 bytes = shape.elements() * item_bytes(dtype);
  const i64 offset = align_up(arena.end, max_of(alignment, item_bytes(dtype)));
  arena.end = offset + bytes;
  if (!arena.keeps_tensors) return;
  arena.tensors.emplace_back(rule.name, rule.formula, dtype, region,
                             rule.bound ? rule.bound(sizes) : Bound::none, shape, offset, bytes);
}

}  // namespace moeplan
