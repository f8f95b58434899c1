// Layers of EXL3 checkpoints: every byte where the kernels read it, and every file that is refused.
#include "runtime/weights/layer_weights.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include "planner/core/text.hpp"
#include "tests/catch.hpp"
#include "tests/safetensors_support.hpp"
#include "tests/temporary_folder.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

constexpr const char* kLayer = "model.layers.3.mlp.experts";

ExpertsShape shape_of(const Exl3Layer& layer, i64 ranks = 1) {
  return {layer.hidden, layer.intermediate / ranks, layer.experts, layer.bits};
}

struct Packed {
  std::string tensors[kLayerTensorCount];
};

// What `read` hands on. Every byte has to come once.
Packed packed(const LayerWeights& weights) {
  const auto [hidden, intermediate, experts, bits] = weights.shape();
  const i64 matrix = experts * hidden * intermediate * bits / 8, rows = 2 * experts * hidden;
  const i64 sizes[] = {2 * matrix, matrix, rows, rows, rows, 6 * experts * intermediate};
  Packed all;
  std::string seen[kLayerTensorCount];
  for (std::size_t i = 0; i < kLayerTensorCount; ++i) {
    all.tensors[i].resize(static_cast<std::size_t>(sizes[i]));
    seen[i].resize(static_cast<std::size_t>(sizes[i]), 0);
  }
  const Status read = weights.read([&](LayerTensor tensor, i64 offset, std::span<const unsigned char> bytes) {
    const auto i = static_cast<std::size_t>(tensor), at = static_cast<std::size_t>(offset);
    REQUIRE(offset >= 0);
    REQUIRE(at + bytes.size() <= all.tensors[i].size());
    std::ranges::copy(bytes, all.tensors[i].begin() + offset);
    for (std::size_t k = 0; k < bytes.size(); ++k) ++seen[i][at + k];
    return Status(Ok{});
  });
  REQUIRE(read);
  for (const std::string& count : seen) CHECK(std::ranges::all_of(count, [](char c) { return c == 1; }));
  return all;
}

std::string part(const std::string& bytes, i64 begin, i64 count) {
  return bytes.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
}

// Halves that packed signs stand for.
std::string halves_of_signs(const std::string& words) {
  std::string halves;
  for (const char byte : words) {
    for (int bit = 0; bit < 8; ++bit) {
      halves += '\0';
      halves += static_cast<char>((byte >> bit & 1) != 0 ? 0xBC : 0x3C);
    }
  }
  return halves;
}

// Looks every tile and every scale up by its index in the file.
void check_places(const Packed& all, FileTensors tensors, const Exl3Layer& layer, i64 ranks) {
  const i64 hidden = layer.hidden, file_wide = layer.intermediate, wide = file_wide / ranks;
  const i64 tile = 32 * layer.bits, experts = layer.experts;
  const auto stored = [&](i64 expert, int projection, const char* name) {
    const bool is_tiles = std::string_view(name) == "trellis";
    const std::string key = is_tiles || !layer.has_signs ? name : std::string(name).substr(0, 2);
    const std::string& bytes = tensor_named(tensors, exl3_name(layer, expert, projection, key)).bytes;
    return !is_tiles && layer.has_signs ? halves_of_signs(bytes) : bytes;
  };
  i64 wrong = 0;
  const auto compare = [&](LayerTensor tensor, i64 at, const std::string& from, i64 begin, i64 count) {
    wrong += part(all.tensors[static_cast<int>(tensor)], at, count) != part(from, begin, count);
  };
  for (i64 expert = 0; expert < experts; ++expert) {
    for (int projection = 0; projection < 2; ++projection) {
      const std::string tiles = stored(expert, projection, "trellis");
      for (i64 k = 0; k < hidden / 16; ++k)
        for (i64 n = 0; n < wide / 16; ++n)
          compare(LayerTensor::w13,
                  (((projection * experts + expert) * (hidden / 16) + k) * (wide / 16) + n) * tile, tiles,
                  (k * (file_wide / 16) + n) * tile, tile);
      compare(projection == 0 ? LayerTensor::gate_suh : LayerTensor::up_suh, 2 * expert * hidden,
              stored(expert, projection, "suh"), 0, 2 * hidden);
      compare(LayerTensor::intermediate_rotations, 2 * (expert * 3 + projection) * wide,
              stored(expert, projection, "svh"), 0, 2 * wide);
    }
    const std::string tiles = stored(expert, 2, "trellis");
    for (i64 k = 0; k < wide / 16; ++k)
      for (i64 n = 0; n < hidden / 16; ++n)
        compare(LayerTensor::w2, ((expert * (wide / 16) + k) * (hidden / 16) + n) * tile, tiles,
                (k * (hidden / 16) + n) * tile, tile);
    compare(LayerTensor::intermediate_rotations, 2 * (expert * 3 + 2) * wide, stored(expert, 2, "suh"), 0,
            2 * wide);
    compare(LayerTensor::down_svh, 2 * expert * hidden, stored(expert, 2, "svh"), 0, 2 * hidden);
  }
  CHECK(wrong == 0);
}

LayerWeights opened(const std::string& path, const ExpertsShape& shape, i64 layer = 3) {
  auto weights = LayerWeights::open(path, layer, shape);
  if (!weights) FAIL(concat(weights.error().message, "\n", weights.error().help));
  return std::move(*weights);
}

// The error's message and help, which have to name all of `parts`.
void check_refused(const std::string& path, const ExpertsShape& shape, const std::vector<std::string>& parts,
                   i64 layer = 3, ErrorCode code = ErrorCode::weights_refused) {
  const auto weights = LayerWeights::open(path, layer, shape);
  REQUIRE_FALSE(weights);
  const Error& error = weights.error();
  INFO(concat(error.message, "\n  help: ", error.help));
  CHECK(error.code == code);
  CHECK(error.message.find(path.substr(0, path.rfind('/'))) != std::string::npos);
  CHECK_FALSE(error.help.empty());
  const std::string text = error.message + "\n" + error.help;
  for (const std::string& expected : parts) {
    INFO(expected);
    CHECK(text.find(expected) != std::string::npos);
  }
}

using Change = std::function<void(FileTensors&)>;
struct Refusal {
  Change change;
  std::vector<std::string> parts;
};

void drop(FileTensors& tensors, std::string_view start) {
  std::erase_if(tensors, [&](const FileTensor& tensor) { return tensor.name.starts_with(start); });
}

}  // namespace

TEST_CASE("every tile and scale of a layer lies where the kernels read it, whole and as the first rank's") {
  const TemporaryFolder folder;
  for (const i64 bits : {3, 4, 5, 6}) {
    for (const auto& [experts, wide, ranks] :
         {std::tuple<i64, i64, i64>{2, 128, 1}, {8, 256, 1}, {3, 256, 2}, {2, 512, 4}, {1, 768, 2}}) {
      INFO(concat(bits, " bits, ", experts, " experts, ", wide, " over ", ranks));
      const Exl3Layer layer{.intermediate = wide, .experts = experts, .bits = bits};
      const FileTensors tensors = exl3_tensors(layer);
      const std::string path = folder.write("m.safetensors", safetensors_text(tensors));
      const LayerWeights weights = opened(path, shape_of(layer, ranks));
      CHECK(weights.source().ranks == ranks);
      CHECK(weights.source().rank == 0);
      CHECK(weights.source().bits == bits);
      CHECK(weights.source().module == kLayer);
      check_places(packed(weights), tensors, layer, ranks);
    }
  }
}

TEST_CASE("tensors longer than a piece come in several, sliced or not") {
  const TemporaryFolder folder;
  const Exl3Layer layer{.hidden = 4096, .intermediate = 2048, .experts = 1, .bits = 6};
  const FileTensors tensors = exl3_tensors(layer);
  const std::string path = folder.write("m.safetensors", safetensors_text(tensors));
  for (const i64 ranks : {1, 2}) {
    const LayerWeights weights = opened(path, shape_of(layer, ranks));
    std::size_t largest = 0, pieces = 0;
    REQUIRE(weights.read([&](LayerTensor, i64, std::span<const unsigned char> bytes) {
      largest = std::max(largest, bytes.size());
      ++pieces;
      return Status(Ok{});
    }));
    CHECK(largest <= std::size_t{4} << 20);
    CHECK(pieces > 4 + 3);
    check_places(packed(weights), tensors, layer, ranks);
  }
}

TEST_CASE("packed signs are read as halves of one and minus one, the lowest bit first") {
  const TemporaryFolder folder;
  const Exl3Layer layer{.experts = 3, .has_signs = true};
  const FileTensors tensors = exl3_tensors(layer);
  const std::string path = folder.write("m.safetensors", safetensors_text(tensors));
  for (const i64 ranks : {1, 2})
    check_places(packed(opened(path, shape_of(layer, ranks))), tensors, layer, ranks);

  FileTensors one = tensors;
  tensor_named(one, exl3_name(layer, 0, 0, "su")).bytes.replace(0, 2, std::string("\x02\x80", 2));
  const Packed all = packed(opened(folder.write("m.safetensors", safetensors_text(one)), shape_of(layer)));
  for (int i = 0; i < 16; ++i) {
    INFO(i);
    const bool is_minus = i == 1 || i == 15;
    CHECK(part(all.tensors[static_cast<int>(LayerTensor::gate_suh)], 2 * i, 2) ==
          std::string(is_minus ? "\0\xBC" : "\0\x3C", 2));
  }
}

TEST_CASE("other prefixes and modules are found, beside shared experts and other layers") {
  const TemporaryFolder folder;
  for (const char* module : {"layers.3.mlp.experts", "language_model.model.layers.3.mlp.experts",
                             "model.layers.3.block_sparse_moe.experts"}) {
    INFO(module);
    Exl3Layer layer{.module = module};
    if (std::string_view(module).find("sparse") != std::string_view::npos)
      layer = {.module = module, .projections = {"w1", "w3", "w2"}};
    const FileTensors tensors = exl3_tensors(layer);
    FileTensors all = exl3_tensors({.experts = 1, .bits = 5, .module = "model.layers.4.mlp.experts"});
    all.push_back({"model.layers.3.mlp.shared_experts.gate_proj.trellis", "I16", {1}, "ab"});
    all.push_back({"model.layers.3.mlp.gate.weight", "F16", {1}, "ab"});
    all.insert(all.end(), tensors.begin(), tensors.end());
    const LayerWeights weights =
        opened(folder.write("m.safetensors", safetensors_text(all)), shape_of(layer));
    CHECK(weights.source().module == module);
    check_places(packed(weights), tensors, layer, 1);
  }
}

TEST_CASE("layers of predicted tokens stand back where they share a number, others have to be told apart") {
  const TemporaryFolder folder;
  const Exl3Layer layer;
  for (const char* other : {"mtp.layers.3.mlp.experts", "draft.layers.3.mlp.experts"}) {
    FileTensors tensors = exl3_tensors({.bits = 4, .module = other});
    const FileTensors own = exl3_tensors(layer);
    tensors.insert(tensors.end(), own.begin(), own.end());
    const std::string path = folder.write("m.safetensors", safetensors_text(tensors));
    if (std::string_view(other).starts_with("mtp")) {
      CHECK(opened(path, shape_of(layer)).source().module == kLayer);
    } else {
      check_refused(path, shape_of(layer), {path, "several modules: draft.layers.3.mlp.experts, model."});
    }
  }
}

TEST_CASE("an index is followed to the shards that hold the layer, wherever it is split") {
  const TemporaryFolder folder;
  const Exl3Layer layer{.experts = 4};
  const FileTensors tensors = exl3_tensors(layer);
  Json map;
  for (const std::ptrdiff_t split : {1, 7, 20}) {
    const FileTensors first(tensors.begin(), tensors.begin() + split);
    const FileTensors second(tensors.begin() + split, tensors.end());
    folder.write("a.safetensors", safetensors_text(first));
    folder.write("b.safetensors", safetensors_text(second));
    for (const FileTensor& tensor : first) map[tensor.name] = "a.safetensors";
    for (const FileTensor& tensor : second) map[tensor.name] = "b.safetensors";
    map["model.layers.9.mlp.experts.0.up_proj.svh"] = "not-fetched.safetensors";
    const std::string path = folder.write("m.safetensors.index.json", Json{{"weight_map", map}}.dump());
    check_places(packed(opened(path, shape_of(layer))), tensors, layer, 1);
  }
  const std::string index = folder.path() + "/m.safetensors.index.json";
  check_refused(index, shape_of(layer), {index, "no experts of layer 5, but of layers 3, 9", "choose one"},
                5);
  check_refused(index, shape_of(layer),
                {"cannot read", "not-fetched.safetensors", index + " names it for layer 9"}, 9,
                ErrorCode::unreadable);
  check_refused(index, {256, 256, 5, 3}, {"missing 4", "the index names no more of it"});
  // One shard alone says where the rest may be.
  check_refused(folder.path() + "/a.safetensors", shape_of(layer),
                {"4: missing 2..3", "model.safetensors.index.json"});
  check_refused(folder.path() + "/b.safetensors", shape_of(layer), {"missing 0", "another file"});

  for (const char* shard : {"../b.safetensors", "/etc/passwd", ""}) {
    map[tensors.front().name] = shard;
    check_refused(folder.write("m.safetensors.index.json", Json{{"weight_map", map}}.dump()), shape_of(layer),
                  {concat("\"", shard, "\""), "no plain file name", "beside their index"});
  }
  check_refused(folder.write("no.json", "{}"), shape_of(layer), {"no.json: no weight_map"});
  check_refused(folder.write("no.json", "{\"weight_map\": {"), shape_of(layer),
                {"no.json: the index is no JSON"});
}

TEST_CASE("tensors behind 4 GiB are read there, and nothing of what lies before") {
  const TemporaryFolder folder;
  const Exl3Layer layer{.experts = 2};
  const FileTensors tensors = exl3_tensors(layer);
  const i64 begin = (i64{5} << 30) + 6;
  const std::string header = with_length(header_of(tensors, begin).dump());
  const std::string path = folder.write("m.safetensors", header);
  const i64 end = static_cast<i64>(header.size()) + begin + static_cast<i64>(bytes_of(tensors).size());
  REQUIRE(truncate(path.c_str(), end) == 0);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(header.size()) + begin);
    file << bytes_of(tensors);
  }
  struct stat status {};
  REQUIRE(stat(path.c_str(), &status) == 0);
  REQUIRE(status.st_size > i64{5} << 30);
  check_places(packed(opened(path, shape_of(layer, 2))), tensors, layer, 2);
}

TEST_CASE("a layer that is not what the plan runs is refused with tensor, expectation, finding and remedy") {
  const TemporaryFolder folder;
  const Exl3Layer layer{.experts = 3};
  const std::string up = concat(kLayer, ".1.up_proj."), down = concat(kLayer, ".2.down_proj.");
  const Refusal refusals[] = {
      {[&](FileTensors& t) { drop(t, up + "trellis"); }, {up + "trellis is missing", "another file"}},
      {[&](FileTensors& t) { drop(t, down + "suh"); }, {down + "suh is missing", "another file"}},
      {[&](FileTensors& t) { drop(t, up + "svh"); }, {up + "svh is missing"}},
      {[&](FileTensors& t) { drop(t, up + "mcg"); },
       {up + "mcg is missing", "3INST, expected mcg", "quantise"}},
      {[&](FileTensors& t) { drop(t, concat(kLayer, ".0.gate_proj.trellis")); },
       {".0.gate_proj.trellis is missing"}},
      {[&](FileTensors& t) { drop(t, concat(kLayer, ".1.")); },
       {"has 2 experts here and the plan 3: missing 1"}},
      {[&](FileTensors& t) {
         t.push_back({concat(kLayer, ".3.up_proj.suh"), "F16", {1}, "ab"});
       },
       {"has experts 0..3; the plan has 3", "n_routed_experts"}},
      {[&](FileTensors& t) { tensor_named(t, up + "trellis").dtype = "F16"; },
       {up + "trellis: expected dtype I16, found F16"}},
      {[&](FileTensors& t) { tensor_named(t, up + "suh").dtype = "BF16"; },
       {up + "suh: expected dtype F16, found BF16"}},
      {[&](FileTensors& t) { tensor_named(t, up + "mcg").dtype = "F32"; },
       {up + "mcg: expected dtype I32, found F32"}},
      {[&](FileTensors& t) {
         tensor_named(t, up + "mcg").shape = {2, 2};
       },
       {up + "mcg: expected shape [], found [2, 2]"}},
      {[&](FileTensors& t) {
         tensor_named(t, up + "trellis").shape = {32, 8, 48};
       },
       {up + "trellis: expected shape [16, 16, 48], found [32, 8, 48]"}},
      {[&](FileTensors& t) {
         tensor_named(t, up + "trellis").shape = {16, 12, 64};
       },
       {up + "trellis: expected 3 bits a weight (shape [16, 16, 48]), found 4 ([16, 12, 64])",
        "/quant/bits"}},
      {[&](FileTensors& t) {
         tensor_named(t, concat(kLayer, ".0.gate_proj.trellis")).shape = {16, 12, 64};
       },
       {".0.gate_proj.trellis: expected 3 bits a weight", "found 4"}},
      {[&](FileTensors& t) {
         tensor_named(t, down + "svh").shape = {128, 2};
       },
       {down + "svh: expected shape [256], found [128, 2]"}},
      {[&](FileTensors& t) {
         t.push_back({up + "mul1", "I32", {}, "\x2D\xD1\xDC\x83"});
       },
       {up + "mul1: expected codebook mcg, found mul1"}},
      {[&](FileTensors& t) { tensor_named(t, up + "mcg").bytes = "\x2D\xD1\xDC\x83"; },
       {up + "mcg: expected the multiplier 3417055213, found 2212286765"}},
      {[&](FileTensors& t) {
         t.push_back({up + "bias", "F16", {256}, std::string(512, 0)});
       },
       {up + "bias: expected no bias, found F16 [256]", "add none"}},
      {[&](FileTensors& t) { tensor_named(t, up + "suh").bytes.replace(2 * 7, 2, std::string("\0\x7C", 2)); },
       {up + "suh: expected finite halves, found infinity at element 7", "damaged"}},
      {[&](FileTensors& t) { tensor_named(t, down + "svh").bytes.replace(2 * 255, 2, "\x01\xFE"); },
       {down + "svh: expected finite halves, found not a number at element 255"}},
      {[&](FileTensors& t) {
         for (FileTensor& tensor : t) tensor.name.replace(tensor.name.rfind('.'), 99, ".weight_scale");
         drop(t, concat(kLayer, ".0.gate_proj"));
         t.resize(1);
       },
       {".0.up_proj.weight_scale: expected EXL3 weights (trellis, suh, svh, mcg), found I16"}},
      {[&](FileTensors& t) {
         t = {{"model.embed_tokens.weight", "F16", {1}, "ab"}};
       },
       {"it holds no routed experts", "model.safetensors.index.json"}},
  };
  for (const Refusal& refusal : refusals) {
    FileTensors tensors = exl3_tensors(layer);
    refusal.change(tensors);
    const std::string path = folder.write("m.safetensors", safetensors_text(tensors));
    check_refused(path, shape_of(layer), refusal.parts);
  }
  const std::string path = folder.write("m.safetensors", safetensors_text(exl3_tensors(layer)));
  check_refused(path, shape_of(layer), {"no experts of layer 7, but of layer 3", "choose it"}, 7);
  check_refused(path, {256, 256, 4, 3}, {"has 3 experts here and the plan 4: missing 3"});
  check_refused(path, {256, 256, 2, 3}, {"has experts 0..2; the plan has 2"});
  check_refused(path, {256, 256, 3, 5}, {"expected 5 bits a weight", "found 3"});
  check_refused(path, {512, 256, 3, 3},
                {".0.gate_proj.trellis: expected shape [32, 16, 48], found [16, 16, 48]"});
  check_refused(
      path, {256, 512, 3, 3},
      {"expected shape [16, 32 or a multiple of it, 48], found [16, 16, 48]", "intermediate size 512", "tp"});
  check_refused(path, {256, 384, 3, 3}, {"expected shape [16, 24 or a multiple of it, 48]"});
  const std::string wide =
      folder.write("wide.safetensors", safetensors_text(exl3_tensors({.intermediate = 512})));
  check_refused(wide, {256, 384, 2, 3},
                {"expected shape [16, 24 or a multiple of it, 48], found [16, 32, 48]"});
}

TEST_CASE("a header that contradicts itself or its file is refused with what it says") {
  const TemporaryFolder folder;
  const Exl3Layer layer;
  const FileTensors tensors = exl3_tensors(layer);
  const std::string data = bytes_of(tensors);
  const std::string gate = concat(kLayer, ".0.gate_proj.");
  const auto refuse = [&](const std::string& text, const std::vector<std::string>& parts) {
    check_refused(folder.write("m.safetensors", text), shape_of(layer), parts);
  };
  const auto refuse_header = [&](const std::function<void(Json&)>& change,
                                 const std::vector<std::string>& parts) {
    Json header = header_of(tensors);
    change(header);
    refuse(with_length(header.dump()) + data, parts);
  };
  const Json sound = header_of(tensors);
  const i64 at = sound[gate + "suh"]["data_offsets"][0];

  refuse_header(
      [&](Json& h) {
        h[gate + "suh"]["data_offsets"] = {at, at + 510};
      },
      {gate + "suh: expected 512 bytes of F16 [256], found data_offsets [", "contradicts itself"});
  refuse_header([&](Json& h) { h[gate + "suh"]["data_offsets"] = {at, at + 514}; }, {"expected 512 bytes"});
  refuse_header([&](Json& h) { h[gate + "suh"]["data_offsets"] = {at + 512, at}; }, {"expected 512 bytes"});
  refuse_header([&](Json& h) { h[gate + "suh"]["data_offsets"] = {-512, 0}; }, {"expected 512 bytes"});
  refuse_header([&](Json& h) { h[gate + "suh"]["data_offsets"] = {0.5, 512.5}; }, {"no data_offsets"});
  refuse_header([&](Json& h) { h[gate + "suh"].erase("data_offsets"); }, {"no data_offsets"});
  refuse_header([&](Json& h) { h[gate + "suh"]["shape"] = {-256}; }, {"expected shape [256], found [-1]"});
  refuse_header(
      [&](Json& h) {
        h[gate + "suh"]["data_offsets"] = {at + 2, at + 514};
      },
      {gate, " overlaps ", "data_offsets"});
  refuse_header([&](Json& h) { h[gate + "svh"]["data_offsets"] = h[gate + "suh"]["data_offsets"]; },
                {" overlaps ", gate + "suh"});
  const i64 beyond = static_cast<i64>(data.size()) + 2;
  refuse_header(
      [&](Json& h) {
        h[gate + "suh"]["data_offsets"] = {beyond - 512, beyond};
      },
      {"cut off", concat(gate, "suh ends at byte ", beyond), concat("the file has ", data.size())});
  refuse_header(
      [&](Json& h) {
        h[gate + "suh"]["data_offsets"] = {1, UINT64_MAX};
      },
      {"cut off", gate + "suh"});

  const std::string whole = safetensors_text(tensors);
  refuse(whole.substr(0, whole.size() - 1), {"m.safetensors is cut off", "fetch the file anew"});
  refuse(whole.substr(0, 40), {"ends inside its header", "whole"});
  refuse(whole.substr(0, 5), {"shorter than a header's length"});
  refuse("", {"shorter than a header's length"});
  refuse(std::string("\0\0\0\0\0\0\0\x01", 8) + whole,
         {"a header of 72057594037927936 bytes", "safetensors file?"});
  refuse(std::string("PK\3\4 a zip file of weights, or any other"), {"a header of ", "safetensors file?"});
  refuse(with_length("no JSON at all"), {"no JSON of tensors", "byte 9", "is it whole"});
  refuse(with_length("{\"a\": {\"dtype\""), {"no JSON of tensors"});
  refuse(with_length("[]"), {"it holds no routed experts"});
  refuse("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n",
         {"Git LFS pointer", "git lfs pull"});
  std::string twice = sound.dump();
  twice.insert(twice.size() - 1, concat(",\"", gate, "suh\":", sound[gate + "suh"].dump()));
  refuse(with_length(twice) + data, {gate + "suh is named twice"});
}

TEST_CASE("names of any length make errors of a few lines") {
  const TemporaryFolder folder;
  const FileTensors tensors = exl3_tensors(Exl3Layer());
  const std::string name(100'000, 'x');
  const auto message_of = [&](const std::string& tensor, const std::vector<i64>& shape) {
    Json header = header_of(tensors);
    header[tensor] = {{"dtype", name}, {"shape", shape}, {"data_offsets", {0, i64{1} << 40}}};
    const std::string path = folder.write("m.safetensors", with_length(header.dump()) + bytes_of(tensors));
    const auto opened = LayerWeights::open(path, 3, shape_of(Exl3Layer()));
    REQUIRE(!opened);
    return opened.error().message;
  };
  const std::string cut_off = message_of(name, {1});
  CHECK(cut_off.find("is cut off") != std::string::npos);
  CHECK(cut_off.size() < 1000);
  const std::string trellis = concat(kLayer, ".0.gate_proj.trellis");
  CHECK(message_of(trellis, std::vector<i64>(10'000, 7)).size() < 1000);
}

TEST_CASE("what is no file is refused as such, and one that shrinks later when it is read") {
  const TemporaryFolder folder;
  const Exl3Layer layer;
  check_refused(folder.path() + "/", shape_of(layer), {"is a folder", "index.json"}, 3,
                ErrorCode::unreadable);
  check_refused(folder.path() + "/none.safetensors", shape_of(layer), {"No such file", "check the path"}, 3,
                ErrorCode::unreadable);
  check_refused("/dev/null", shape_of(layer), {"/dev/null is no regular file"}, 3, ErrorCode::unreadable);

  const std::string path = folder.write("m.safetensors", safetensors_text(exl3_tensors(layer)));
  const LayerWeights weights = opened(path, shape_of(layer));
  REQUIRE(truncate(path.c_str(), 9000) == 0);
  const Status read =
      weights.read([](LayerTensor, i64, std::span<const unsigned char>) { return Status(Ok{}); });
  REQUIRE_FALSE(read);
  CHECK(read.error().code == ErrorCode::unreadable);
  CHECK(read.error().message.find(path + ": it ends before byte ") != std::string::npos);
}
