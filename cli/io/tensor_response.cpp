#include "cli/io/tensor_response.hpp"

#include <span>

namespace moeplan {
namespace {

void write_fill(JsonWriter& json, const Fill& fill) {
  if (fill.kind == FillKind::value) json.member("fill", fill.value);
  if (fill.kind == FillKind::own_address) json.member("fill", "self_address");
}

}  // namespace

void write_shape(JsonWriter& json, const Shape& shape) {
  json.key("shape").inline_array(std::span(shape.dims, static_cast<std::size_t>(shape.rank)));
}

void write_tensors(JsonWriter& json, const ArenaLayout& arena) {
  json.key("tensors").begin_array();
  for (const TensorSpec& tensor : arena.tensors) {
    json.begin_object();
    json.member("name", tensor.name);
    json.member("dtype", name_of(tensor.dtype));
    write_shape(json, tensor.shape);
    json.key("offset");
    if (tensor.offset == kOutsideArena) {
      json.null();
    } else {
      json.value(tensor.offset);
    }
    json.member("bytes", tensor.bytes);
    if (tensor.region != Region::whole) json.member("region", name_of(tensor.region));
    write_fill(json, tensor.fill);
    json.end_object();
  }
  json.end_array();
}

}  // namespace moeplan
