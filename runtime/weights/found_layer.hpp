// Where the experts of one MoE layer lie: what the headers of .safetensors files, or an index of them, say.
// Nothing is checked but that they say it, and that the files are whole.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/integer.hpp"
#include "planner/core/result.hpp"
#include "runtime/weights/safetensors.hpp"

namespace moeplan {

// A tensor of the layer, where it is stored.
struct Stored {
  std::string name;
  std::size_t file = 0;
  std::string dtype;
  std::vector<i64> shape;
  i64 begin = 0, end = 0;  // behind the header
};

struct PartKey {
  i64 expert;
  std::string projection, part;
  auto operator<=>(const PartKey&) const = default;
};

struct OpenFile {
  std::shared_ptr<const RangedFile> file;
  i64 data_begin = 0;
};

// All of one layer's experts that some files hold.
struct FoundLayer {
  std::vector<OpenFile> files;
  std::set<i64> layers;                                          // with experts, that are named
  std::map<std::string, std::map<PartKey, Stored>> modules;      // of the layer
  std::map<std::string, std::set<std::string>> shards_of_layer;  // by module, where an index names them
};

// Opens what `path` names, a file or an index, and finds the layer's module there,
// "model.layers.3.mlp.experts". Error `unreadable`, or `weights_refused` with the file and a remedy.
Result<FoundLayer> find_layer(const std::string& path, i64 layer, std::string& module);

// ---- Texts of refusals. ----

// Error `weights_refused`.
Error refused(std::string message, std::string_view help);

// What may hold what `path` does not.
std::string_view elsewhere(const std::string& path);

// "3..5, 7"
std::string ranges_of(const std::set<i64>& numbers);

// "[8, 128]"
std::string text_of_shape(std::span<const i64> shape);

}  // namespace moeplan
