// The experts of one MoE layer in an EXL3 checkpoint: checked against what a Trellis plan runs, and handed on
// as its kernels read them. No GPU is asked; weights pass through the host in pieces.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "planner/core/integer.hpp"
#include "planner/core/result.hpp"
#include "runtime/moe/trellis_kernels.hpp"
#include "runtime/weights/safetensors.hpp"

namespace moeplan {

// What a plan runs; `intermediate` is a rank's.
struct ExpertsShape {
  i64 hidden = 0;
  i64 intermediate = 0;
  i64 experts = 0;
  i64 bits = 0;
  bool operator==(const ExpertsShape&) const = default;
};
ExpertsShape experts_shape(const TrellisLayerPlan& plan);

// Which weights they are.
struct LayerSource {
  std::string file;  // as given: a .safetensors file, or an index
  i64 layer = 0;
  std::string module;  // "model.layers.3.mlp.experts"
  i64 rank = 0;
  i64 ranks = 1;  // the file's intermediate size is so many times the plan's
  i64 bits = 0;
};

// The tensors of TrellisWeights.
enum class LayerTensor { w13, w2, gate_suh, up_suh, down_svh, intermediate_rotations };
inline constexpr int kLayerTensorCount = 6;

// Bytes of a tensor, from `offset` on.
using TakeBytes = std::function<Status(LayerTensor tensor, i64 offset, std::span<const unsigned char> bytes)>;

class LayerWeights {
 public:
  // Opens a .safetensors file, or an index and the shards beside it that hold the layer. Names, shapes,
  // types, places, markers and scales are all checked here, and nothing but scales is read. Of a file with a
  // larger intermediate size the first rank's slice is taken. Error `unreadable`, or `weights_refused` with
  // the file, the tensor, what was expected, what was found, and a remedy.
  static Result<LayerWeights> open(const std::string& path, i64 layer, const ExpertsShape& shape);

  const ExpertsShape& shape() const { return shape_; }
  const LayerSource& source() const { return source_; }

  // Hands on every byte of every tensor once, a few MiB at a time. Error: of `take`, or of reading.
  Status read(const TakeBytes& take) const;

 private:
  friend class LayerChecker;
  LayerWeights() = default;

  // The tiles of a projection of an expert: `rows` of `row_bytes`, `pitch` bytes apart in their file.
  struct Tiles {
    LayerTensor tensor{};
    i64 to = 0;
    std::size_t file = 0;
    i64 from = 0;
    i64 rows = 0, row_bytes = 0, pitch = 0;
  };
  Status read(const Tiles& tiles, std::vector<unsigned char>& room, const TakeBytes& take) const;

  ExpertsShape shape_;
  LayerSource source_;
  std::vector<std::shared_ptr<const RangedFile>> files_;
  std::vector<Tiles> tiles_;
  std::vector<HalfBits> gate_suh_, up_suh_, down_svh_, rotations_;
};

}  // namespace moeplan
