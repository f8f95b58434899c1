// Small safetensors files: tensors of an EXL3 layer that a test may change before they are written.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tests/support.hpp"

namespace moeplan::test {

struct FileTensor {
  std::string name, dtype;
  std::vector<i64> shape;
  std::string bytes;
};
using FileTensors = std::vector<FileTensor>;

inline FileTensor& tensor_named(FileTensors& tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &FileTensor::name);
  if (found == tensors.end()) throw std::runtime_error("no tensor " + std::string(name));
  return *found;
}

// The header of the tensors, one behind the other, and a file of a header and the bytes behind it.
inline Json header_of(const FileTensors& tensors, i64 begin = 0) {
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  for (const FileTensor& tensor : tensors) {
    const i64 end = begin + static_cast<i64>(tensor.bytes.size());
    header[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  return header;
}
inline std::string bytes_of(const FileTensors& tensors) {
  std::string bytes;
  for (const FileTensor& tensor : tensors) bytes += tensor.bytes;
  return bytes;
}
inline std::string with_length(const std::string& header) {
  std::string text;
  for (std::size_t shift = 0; shift < 64; shift += 8)
    text += static_cast<char>(header.size() >> shift & 0xFF);
  return text + header;
}
inline std::string safetensors_text(const FileTensors& tensors) {
  return with_length(header_of(tensors).dump()) + bytes_of(tensors);
}

struct Exl3Layer {
  i64 hidden = 256;
  i64 intermediate = 256;  // of all ranks
  i64 experts = 2;
  i64 bits = 3;
  std::string module = "model.layers.3.mlp.experts";
  const char* projections[3] = {"gate_proj", "up_proj", "down_proj"};
  bool has_signs = false;  // su and sv in place of suh and svh
};

inline std::string exl3_name(const Exl3Layer& layer, i64 expert, int projection, std::string_view part) {
  return layer.module + "." + std::to_string(expert) + "." + layer.projections[projection] + "." +
         std::string(part);
}

// Any words are legal tiles; scales are near one and near 1/16, which keeps a layer's values in the range of
// halves. No two words of a tensor's neighbourhood are equal by rule.
inline FileTensors exl3_tensors(const Exl3Layer& layer) {
  FileTensors tensors;
  std::uint32_t state = 1;
  const auto words = [&](i64 count, unsigned keep, unsigned set) {
    std::string bytes;
    for (i64 i = 0; i < count; ++i) {
      state = state * 1664525 + 1013904223;
      const unsigned word = (state >> 16 & keep) | set;
      bytes += static_cast<char>(word & 0xFF);
      bytes += static_cast<char>(word >> 8);
    }
    return bytes;
  };
  for (i64 expert = 0; expert < layer.experts; ++expert) {
    for (int projection = 0; projection < 3; ++projection) {
      const i64 inputs = projection == 2 ? layer.intermediate : layer.hidden;
      const i64 outputs = projection == 2 ? layer.hidden : layer.intermediate;
      const auto add = [&](std::string_view part, const char* dtype, std::vector<i64> shape,
                           std::string bytes) {
        tensors.push_back(
            {exl3_name(layer, expert, projection, part), dtype, std::move(shape), std::move(bytes)});
      };
      add("trellis", "I16", {inputs / 16, outputs / 16, 16 * layer.bits},
          words(inputs * outputs * layer.bits / 16, 0xFFFF, 0));
      if (layer.has_signs) {
        add("su", "I16", {inputs / 16}, words(inputs / 16, 0xFFFF, 0));
        add("sv", "I16", {outputs / 16}, words(outputs / 16, 0xFFFF, 0));
      } else {
        add("suh", "F16", {inputs}, words(inputs, 0x83FF, 0x3800));
        add("svh", "F16", {outputs}, words(outputs, 0x83FF, 0x2C00));
      }
      add("mcg", "I32", {}, "\xED\x1F\xAC\xCB");
    }
  }
  return tensors;
}

}  // namespace moeplan::test
