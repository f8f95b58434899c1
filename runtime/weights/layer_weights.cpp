#include "runtime/weights/layer_weights.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "planner/core/check.hpp"
#include "planner/core/limits.hpp"
#include "planner/core/text.hpp"
#include "runtime/weights/found_layer.hpp"

namespace moeplan {
namespace {

constexpr i64 kTileSide = 16;
constexpr i64 kPieceBytes = i64{4} << 20;   // of a file, read at a time
constexpr std::uint32_t kMcg = 0xCBAC1FED;  // the codebook's multiplier

enum class Projection { gate, up, down };
constexpr std::string_view kProjectionNames[][2] = {
    {"gate_proj", "w1"}, {"up_proj", "w3"}, {"down_proj", "w2"}};

}  // namespace

// ---- The checks. ----

ExpertsShape experts_shape(const TrellisLayerPlan& plan) {
  return {plan.hidden, plan.intermediate, plan.experts, plan.bits};
}

class LayerChecker {
 public:
  LayerChecker(const std::string& path, const ExpertsShape& shape, const FoundLayer& found,
               const std::string& module)
      : path_(path), shape_(shape), found_(found), module_(shortened(module, 200)) {
    if (const auto parts = found.modules.find(module); parts != found.modules.end()) parts_ = &parts->second;
  }

  Result<LayerWeights> check(i64 layer) {
    if (const Status held = check_experts(); !held) return held.error();
    if (const Status fits = find_intermediate(); !fits) return fits.error();
    weights_.shape_ = shape_;
    weights_.source_ = {path_, layer, module_, 0, file_intermediate_ / shape_.intermediate, shape_.bits};
    for (const OpenFile& open : found_.files) weights_.files_.push_back(open.file);
    for (const Projection projection : {Projection::gate, Projection::up, Projection::down}) {
      for (i64 expert = 0; expert < shape_.experts; ++expert) {
        if (const Status added = add(expert, projection); !added) return added.error();
      }
    }
    if (const Status apart = check_apart(); !apart) return apart.error();
    // Only now: the files hold what these tables are made from.
    const auto rows = static_cast<std::size_t>(shape_.experts * shape_.hidden);
    for (const Table table : {kGateSuh, kUpSuh, kDownSvh}) (weights_.*table).resize(rows);
    weights_.rotations_.resize(static_cast<std::size_t>(shape_.experts * 3 * shape_.intermediate));
    for (const Scale& scale : scales_) {
      if (const Status read = read_scale(scale); !read) return read.error();
    }
    return std::move(weights_);
  }

 private:
  using Table = std::vector<HalfBits> LayerWeights::*;
  static constexpr Table kGateSuh = &LayerWeights::gate_suh_, kUpSuh = &LayerWeights::up_suh_,
                         kDownSvh = &LayerWeights::down_svh_, kRotations = &LayerWeights::rotations_;

  // A row of a table, which a tensor of halves or of packed signs fills.
  struct Row {
    Table table;
    i64 at;
    i64 count;  // the tensor's first
  };
  struct Scale {
    const Stored* stored;
    bool is_signs;
    Row row;
  };

  std::string place(const Stored& stored) const {
    return concat(found_.files[stored.file].file->path(), ": ", stored.name);
  }
  std::string name_of_part(i64 expert, Projection projection, std::string_view part) const {
    return concat(module_, ".", expert, ".", kProjectionNames[static_cast<int>(projection)][0], ".", part);
  }

  const Stored* find(i64 expert, Projection projection, std::string_view part) const {
    if (!parts_) return nullptr;
    for (const std::string_view name : kProjectionNames[static_cast<int>(projection)]) {
      const auto at = parts_->find({expert, std::string(name), std::string(part)});
      if (at != parts_->end()) return &at->second;
    }
    return nullptr;
  }

  // As many experts as the plan has, and of EXL3.
  Status check_experts() const {
    std::set<i64> experts;
    const Stored* other = nullptr;
    bool is_trellis = false;
    if (parts_) {
      for (const auto& [key, stored] : *parts_) {
        experts.insert(key.expert);
        is_trellis = is_trellis || key.part == "trellis";
        if (!other) other = &stored;
      }
    }
    if (!is_trellis && other)
      return refused(concat(place(*other), ": expected EXL3 weights (trellis, suh, svh, mcg), found ",
                            other->dtype, " and no trellis in this layer"),
                     elsewhere(path_));
    if (!experts.empty() && *experts.rbegin() >= shape_.experts)
      return refused(concat(path_, ": ", module_, " has experts ", ranges_of(experts), "; the plan has ",
                            shape_.experts),
                     "plan the checkpoint's number of experts: n_routed_experts of the config's model");
    if (std::ssize(experts) == shape_.experts) return Ok{};
    std::set<i64> missing;
    for (i64 expert = 0; expert < shape_.experts; ++expert)
      if (!experts.contains(expert)) missing.insert(expert);
    return refused(concat(path_, ": ", module_, " has ", experts.size(), " experts here and the plan ",
                          shape_.experts, ": missing ", ranges_of(missing)),
                   concat("plan the checkpoint's number of experts; ", elsewhere(path_)));
  }

  Error missing(i64 expert, Projection projection, std::string_view part) const {
    return refused(concat(path_, ": ", name_of_part(expert, projection, part), " is missing"),
                   elsewhere(path_));
  }

  // The file's intermediate size, by the first expert; all others have to agree.
  Status find_intermediate() {
    const Stored* const gate = find(0, Projection::gate, "trellis");
    if (!gate) return missing(0, Projection::gate, "trellis");
    if (const Status fine = check_dtype(*gate, "I16"); !fine) return fine;
    const i64 rows = shape_.hidden / kTileSide, columns = shape_.intermediate / kTileSide;
    const auto& found = gate->shape;
    if (found.size() == 3 && found[1] > 0) {
      if (const Status fine = check_shape(*gate, {rows, found[1], kTileSide * shape_.bits}); !fine)
        return fine;
    }
    if (found.size() != 3 || found[1] < columns || found[1] % columns != 0 ||
        found[1] > kMaxDimension / kTileSide)
      return refused(concat(place(*gate), ": expected shape [", rows, ", ", columns, " or a multiple of it, ",
                            kTileSide * shape_.bits, "], found ", text_of_shape(found),
                            ": a rank of the plan has intermediate size ", shape_.intermediate),
                     "plan the checkpoint's moe_intermediate_size, and as many ranks (tp) as share it");
    file_intermediate_ = found[1] * kTileSide;
    return Ok{};
  }

  Status check_dtype(const Stored& stored, std::string_view dtype) const {
    if (stored.dtype == dtype) return Ok{};
    return refused(concat(place(stored), ": expected dtype ", dtype, ", found ", stored.dtype),
                   "only EXL3 checkpoints as exllamav3 writes them are read");
  }

  Status check_shape(const Stored& stored, const std::vector<i64>& shape) const {
    if (stored.shape == shape) return Ok{};
    const std::string place_of = place(stored);
    // A tile's words say how many bits a weight has.
    if (shape.size() == 3 && stored.shape.size() == 3 && stored.shape[2] != shape[2] &&
        stored.shape[2] % kTileSide == 0)
      return refused(concat(place_of, ": expected ", shape[2] / kTileSide, " bits a weight (shape ",
                            text_of_shape(shape), "), found ", stored.shape[2] / kTileSide, " (",
                            text_of_shape(stored.shape), ")"),
                     "plan the checkpoint's bits, /quant/bits; layers of several bit widths are not run");
    return refused(
        concat(place_of, ": expected shape ", text_of_shape(shape), ", found ", text_of_shape(stored.shape)),
        "is the config that of this checkpoint? hidden size, intermediate size and tp decide");
  }

  // Of a tensor that is read: its type and shape, and as many bytes as these come to.
  Status take(const Stored& stored, std::string_view dtype, i64 item_bytes, const std::vector<i64>& shape) {
    if (const Status fine = check_dtype(stored, dtype); !fine) return fine;
    if (const Status fine = check_shape(stored, shape); !fine) return fine;
    i64 bytes = item_bytes;
    for (const i64 size : shape) bytes *= size;
    if (stored.begin < 0 || stored.end < stored.begin || stored.end - stored.begin != bytes)
      return refused(concat(place(stored), ": expected ", bytes, " bytes of ", dtype, " ",
                            text_of_shape(shape), ", found ",
                            stored.begin < 0 || stored.end < 0
                                ? std::string("no data_offsets")
                                : concat("data_offsets [", stored.begin, ", ", stored.end, "]")),
                     "the header contradicts itself: fetch or write the file anew");
    taken_.push_back(&stored);
    return Ok{};
  }

  // The codebook is stated by a marker, and it is the one that the plans have.
  Status check_codebook(i64 expert, Projection projection) {
    constexpr std::string_view kHelp = "plans are run with codebook mcg alone; quantise with it";
    if (const Stored* mul1 = find(expert, projection, "mul1"))
      return refused(concat(place(*mul1), ": expected codebook mcg, found mul1"), kHelp);
    const Stored* const mcg = find(expert, projection, "mcg");
    if (!mcg)
      return refused(concat(path_, ": ", name_of_part(expert, projection, "mcg"),
                            " is missing: without a marker the codebook is 3INST, expected mcg"),
                     concat(kHelp, "; ", elsewhere(path_)));
    const bool is_row = mcg->shape == std::vector<i64>{1};
    if (const Status fine = take(*mcg, "I32", 4, is_row ? std::vector<i64>{1} : std::vector<i64>{}); !fine)
      return fine;
    unsigned char bytes[4];
    const OpenFile& open = found_.files[mcg->file];
    if (const Status read = open.file->read(open.data_begin + mcg->begin, bytes); !read) return read;
    std::uint32_t value = 0;
    for (std::size_t i = 4; i-- > 0;) value = value << 8 | bytes[i];
    if (value != kMcg)
      return refused(concat(place(*mcg), ": expected the multiplier ", kMcg, ", found ", value), kHelp);
    return Ok{};
  }

  // suh or svh of `length`, or su or sv: `part` without its h.
  Status add_scale(i64 expert, Projection projection, std::string_view part, i64 length, Row row) {
    const Stored* const halves = find(expert, projection, part);
    const Stored* const signs = halves ? nullptr : find(expert, projection, part.substr(0, part.size() - 1));
    if (!halves && !signs) return missing(expert, projection, part);
    const Status taken = halves ? take(*halves, "F16", 2, {length}) : take(*signs, "I16", 2, {length / 16});
    if (!taken) return taken;
    scales_.push_back({halves ? halves : signs, signs != nullptr, row});
    return Ok{};
  }

  Status add(i64 expert, Projection projection) {
    const bool is_down = projection == Projection::down;
    const i64 hidden = shape_.hidden, intermediate = shape_.intermediate;
    const i64 inputs = is_down ? file_intermediate_ : hidden;
    const i64 outputs = is_down ? hidden : file_intermediate_;
    if (const Stored* bias = find(expert, projection, "bias"))
      return refused(
          concat(place(*bias), ": expected no bias, found ", bias->dtype, " ", text_of_shape(bias->shape)),
          "the kernels of Trellis plans add none");
    const Stored* const trellis = find(expert, projection, "trellis");
    if (!trellis) return missing(expert, projection, "trellis");
    if (const Status taken =
            take(*trellis, "I16", 2, {inputs / kTileSide, outputs / kTileSide, kTileSide * shape_.bits});
        !taken)
      return taken;
    if (const Status fine = check_codebook(expert, projection); !fine) return fine;

    const Row wide = {is_down                        ? kDownSvh
                      : projection == Projection::up ? kUpSuh
                                                     : kGateSuh,
                      expert * hidden, hidden};
    const Row slice = {kRotations, (3 * expert + static_cast<i64>(projection)) * intermediate, intermediate};
    if (const Status added = add_scale(expert, projection, "suh", inputs, is_down ? slice : wide); !added)
      return added;
    if (const Status added = add_scale(expert, projection, "svh", outputs, is_down ? wide : slice); !added)
      return added;

    // The first rank has the first columns of gate and up, and the first rows of down.
    const i64 tile_bytes = trellis_tile_bytes(shape_.bits);
    const i64 rows = (is_down ? intermediate : hidden) / kTileSide;
    const i64 row_bytes = (is_down ? hidden : intermediate) / kTileSide * tile_bytes;
    const i64 plane = projection == Projection::up ? shape_.experts : 0;
    weights_.tiles_.push_back({is_down ? LayerTensor::w2 : LayerTensor::w13,
                               (plane + expert) * rows * row_bytes, trellis->file,
                               found_.files[trellis->file].data_begin + trellis->begin, rows, row_bytes,
                               outputs / kTileSide * tile_bytes});
    return Ok{};
  }

  // No two tensors share a byte.
  Status check_apart() {
    std::ranges::sort(taken_, [](const Stored* a, const Stored* b) {
      return std::tie(a->file, a->begin, a->end) < std::tie(b->file, b->begin, b->end);
    });
    for (std::size_t i = 1; i < taken_.size(); ++i) {
      const Stored &first = *taken_[i - 1], &second = *taken_[i];
      if (first.file != second.file || first.end <= second.begin) continue;
      return refused(concat(place(second), " overlaps ", first.name, ": data_offsets [", second.begin, ", ",
                            second.end, "] and [", first.begin, ", ", first.end, "]"),
                     "the header contradicts itself: fetch or write the file anew");
    }
    return Ok{};
  }

  Status read_scale(const Scale& scale) {
    const auto [table, first, count] = scale.row;
    HalfBits* const out = (weights_.*table).data() + first;
    const i64 words = scale.is_signs ? count / 16 : count;
    bytes_.resize(static_cast<std::size_t>(2 * words));
    const OpenFile& open = found_.files[scale.stored->file];
    if (const Status read = open.file->read(open.data_begin + scale.stored->begin, bytes_); !read)
      return read;
    const auto word = [&](i64 i) {
      const auto at = static_cast<std::size_t>(2 * i);
      return static_cast<HalfBits>(bytes_[at] | bytes_[at + 1] << 8);
    };
    constexpr HalfBits kOne = 0x3C00, kMinusOne = 0xBC00, kExponent = 0x7C00, kMantissa = 0x03FF;
    for (i64 i = 0; i < count; ++i) {
      const HalfBits half = !scale.is_signs                       ? word(i)
                            : (word(i / 16) >> (i % 16) & 1) != 0 ? kMinusOne
                                                                  : kOne;
      if ((half & kExponent) == kExponent)
        return refused(concat(place(*scale.stored), ": expected finite halves, found ",
                              (half & kMantissa) != 0 ? "not a number" : "infinity", " at element ", i),
                       "the checkpoint is damaged: fetch or quantise it anew");
      out[i] = half;
    }
    return Ok{};
  }

  const std::string& path_;
  const ExpertsShape& shape_;
  const FoundLayer& found_;
  std::string module_;  // as errors name it
  const std::map<PartKey, Stored>* parts_ = nullptr;
  i64 file_intermediate_ = 0;
  LayerWeights weights_;
  std::vector<const Stored*> taken_;
  std::vector<Scale> scales_;
  std::vector<unsigned char> bytes_;
};

Result<LayerWeights> LayerWeights::open(const std::string& path, i64 layer, const ExpertsShape& shape) {
  MOEPLAN_CHECK(shape.hidden > 0 && shape.intermediate > 0 && shape.hidden % kHadamardBlock == 0 &&
                    shape.intermediate % kHadamardBlock == 0,
                "sizes of a Trellis plan are multiples of a Hadamard block");
  std::string module;
  const auto found = find_layer(path, layer, module);
  if (!found) return found.error();
  return LayerChecker(path, shape, *found, module).check(layer);
}

// ---- Reading. ----

Status LayerWeights::read(const Tiles& tiles, std::vector<unsigned char>& room, const TakeBytes& take) const {
  const i64 piece_rows = max_of(kPieceBytes / tiles.pitch, 1);
  for (i64 row = 0; row < tiles.rows; row += piece_rows) {
    const i64 rows = min_of(piece_rows, tiles.rows - row);
    // Behind the last row's slice nothing is wanted.
    room.resize(static_cast<std::size_t>((rows - 1) * tiles.pitch + tiles.row_bytes));
    if (const Status done = files_[tiles.file]->read(tiles.from + row * tiles.pitch, room); !done)
      return done;
    for (i64 i = 1; i < rows && tiles.row_bytes < tiles.pitch; ++i)
      std::memmove(room.data() + i * tiles.row_bytes, room.data() + i * tiles.pitch,
                   static_cast<std::size_t>(tiles.row_bytes));
    const auto bytes = static_cast<std::size_t>(rows * tiles.row_bytes);
    if (const Status taken =
            take(tiles.tensor, tiles.to + row * tiles.row_bytes, std::span(room).first(bytes));
        !taken)
      return taken;
  }
  return Ok{};
}

Status LayerWeights::read(const TakeBytes& take) const {
  const std::pair<LayerTensor, const std::vector<HalfBits>*> tables[] = {
      {LayerTensor::gate_suh, &gate_suh_},
      {LayerTensor::up_suh, &up_suh_},
      {LayerTensor::down_svh, &down_svh_},
      {LayerTensor::intermediate_rotations, &rotations_}};
  for (const auto& [tensor, table] : tables) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(table->data());
    if (const Status taken = take(tensor, 0, {bytes, table->size() * sizeof(HalfBits)}); !taken) return taken;
  }
  std::vector<unsigned char> room;
  for (const Tiles& tiles : tiles_) {
    if (const Status done = read(tiles, room, take); !done) return done;
  }
  return Ok{};
}

}  // namespace moeplan
