// Safetensors headers: expert counts, shapes and formats from tensor names. Never the weights.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/import/sources.hpp"
#include "cli/io/json_document.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr std::size_t kMaxHeaderBytes = std::size_t{100} << 20;
constexpr std::size_t kMostTensors = 4'000'000;

using Shape = std::array<i64, 4>;

// What the names and shapes of expert tensors add up to.
struct Experts {
  std::map<i64, i64> last_expert;           // of each layer
  std::map<i64, std::map<i64, i64>> tiers;  // layer, bits, experts
  std::set<std::string, std::less<>> suffixes;
  i64 hidden = 0, intermediate = 0;
  bool is_trellis = false;
  bool has_shapes = false;
  i64 fused = 0;  // experts of a tensor that holds all
  std::string dtype;
  std::string shard;  // of an expert's first tensor, in an index
};

// The number behind `word` in `name`, or -1; `rest` is what follows it.
i64 number_behind(std::string_view name, std::string_view word, std::string_view* rest) {
  const auto at = name.find(word);
  if (at == std::string_view::npos) return -1;
  std::size_t i = at + word.size();
  i64 number = 0;
  const std::size_t begin = i;
  while (i < name.size() && i - begin < 7 && name[i] >= '0' && name[i] <= '9')
    number = number * 10 + (name[i++] - '0');
  if (i == begin) return -1;
  *rest = name.substr(std::min(i + 1, name.size()));
  return number;
}

void take_shape(Experts& experts, std::string_view projection, std::string_view suffix,
                std::string_view dtype, const Shape& shape, i64 layer) {
  const bool is_gate = projection == "gate_proj" || projection == "w1";
  if (!is_gate || shape[0] <= 0 || shape[1] <= 0) return;
  i64 hidden = 0, intermediate = 0;
  if (suffix == "trellis" && shape[2] > 0) {
    // int16 [K/16, N/16, 16*bits]
    experts.is_trellis = true;
    hidden = shape[0] * 16;
    intermediate = shape[1] * 16;
    ++experts.tiers[layer][shape[2] / 16];
  } else if (suffix == "weight" || suffix == "weight_packed") {
    const i64 packed = dtype == "U8" ? 2 : dtype == "I32" ? 8 : 1;
    intermediate = shape[0];
    hidden = shape[1] * packed;
    if (experts.dtype.empty()) experts.dtype = dtype;
  }
  if (hidden == 0 || experts.has_shapes) return;
  experts.hidden = hidden;
  experts.intermediate = intermediate;
  experts.has_shapes = true;
}

void take_tensor(Experts& experts, std::string_view name, std::string_view dtype, const Shape& shape) {
  std::string_view rest;
  const i64 layer = number_behind(name, "layers.", &rest);
  if (layer < 0) return;
  std::string_view tail;
  const i64 expert = number_behind(rest, "experts.", &tail);
  if (expert < 0) {
    const auto at = rest.find("experts.gate_up_proj");
    if (at == std::string_view::npos || shape[0] <= 0) return;
    experts.last_expert[layer] = shape[0] - 1;
    if (rest.ends_with("gate_up_proj_blocks") && shape[3] > 0) {
      experts.suffixes.insert("blocks");
      experts.intermediate = shape[1] / 2;
      experts.hidden = std::min<i64>(shape[2], 1 << 20) * std::min<i64>(shape[3], 1 << 20) * 2;
      experts.has_shapes = true;
    }
    return;
  }
  auto& last = experts.last_expert.try_emplace(layer, expert).first->second;
  last = std::max(last, expert);
  const auto dot = tail.find('.');
  if (dot == std::string_view::npos) return;
  const auto suffix = tail.substr(tail.rfind('.') + 1);
  if (experts.suffixes.size() < 64 && experts.suffixes.find(suffix) == experts.suffixes.end())
    experts.suffixes.emplace(suffix);
  take_shape(experts, tail.substr(0, dot), suffix, dtype, shape, layer);
}

// Receives a header's or an index's JSON piece by piece: headers may hold millions of values.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(Experts& experts) : experts_(experts) {}

  std::string error;
  ErrorCode code = ErrorCode::invalid_json;
  std::size_t error_at = 0;
  bool is_index = false;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return number(value > INT64_MAX ? INT64_MAX : static_cast<i64>(value));
  }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool string(string_t& value) override {
    if (depth_ == 2 && section_ == "weight_map") {
      is_index = true;
      const std::size_t layers = experts_.last_expert.size();
      take_tensor(experts_, key_, "", {});
      if (experts_.last_expert.size() > layers && experts_.shard.empty()) experts_.shard = value;
      return count();
    }
    if (depth_ == 2 && key_ == "dtype") dtype_ = value;
    return true;
  }
  bool start_object(std::size_t) override {
    if (++depth_ > 8) return fail(ErrorCode::too_deep, "nested deeper than a header is");
    if (depth_ == 2) {
      dtype_.clear();
      shape_ = {};
      rank_ = 0;
    }
    return true;
  }
  bool end_object() override {
    if (depth_ == 2 && section_ != "__metadata__" && section_ != "weight_map" && !dtype_.empty()) {
      take_tensor(experts_, section_, dtype_, shape_);
      if (!count()) return false;
    }
    --depth_;
    return true;
  }
  bool key(string_t& value) override {
    (depth_ == 1 ? section_ : key_) = value;
    return true;
  }
  bool start_array(std::size_t) override {
    if (++arrays_ > 4) return fail(ErrorCode::too_deep, "nested deeper than a header is");
    return true;
  }
  bool end_array() override {
    --arrays_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& exception) override {
    error = exception.what();
    if (const auto colon = error.rfind(": "); colon != std::string::npos) error = error.substr(colon + 2);
    error_at = position;
    return false;
  }

 private:
  bool number(i64 value) {
    if (depth_ == 2 && arrays_ == 1 && key_ == "shape" && rank_ < shape_.size())
      shape_[rank_++] = std::clamp<i64>(value, 0, i64{1} << 32);
    return true;
  }
  bool count() {
    return ++tensors_ <= kMostTensors || fail(ErrorCode::too_large, "more tensors than a checkpoint has");
  }
  bool fail(ErrorCode why, std::string message) {
    code = why;
    error = std::move(message);
    return false;
  }

  Experts& experts_;
  int depth_ = 0, arrays_ = 0;
  std::string section_, key_, dtype_;
  Shape shape_{};
  std::size_t rank_ = 0, tensors_ = 0;
};

void add_format(Import& import, const Experts& experts, std::string_view name) {
  const auto has = [&](std::string_view suffix) {
    return experts.suffixes.find(suffix) != experts.suffixes.end();
  };
  const auto add = [&](std::string_view pointer, std::string_view value, std::string_view what) {
    import.add({std::string(pointer), json_of(value), concat(base_name(name), " tensors *.", what),
                RowKind::imported, Rank::checkpoint});
  };
  if (has("trellis")) return add("/quant/source_format", "exl3_trellis_mcg", "trellis");
  if (has("weight_scale_2")) return add("/quant/source_format", "modelopt_nvfp4", "weight_scale_2");
  if (has("weight_packed") && has("weight_global_scale"))
    return add("/quant/weights", "nvfp4", "weight_global_scale");
  if (has("weight_packed")) return add("/quant/source_format", "compressed_tensors", "weight_packed");
  if (has("blocks")) return add("/quant/source_format", "fp4_e8m0_k32", "gate_up_proj_blocks");
  if (has("weight_scale_inv") || experts.dtype.starts_with("F8"))
    return add("/quant/weights", "fp8", "weight");
  if (experts.dtype == "BF16") return add("/quant/weights", "bfloat16", "weight");
}

void add_rows(Import& import, const Experts& experts, std::string_view name, bool is_whole) {
  if (experts.last_expert.empty())
    return import.fail(
        ErrorCode::unsupported_deployment, Place{.source = name}, "no expert tensors in this header",
        is_whole ? "moeplan plans mixture-of-experts models" : "give another shard, or the index");
  const auto add = [&](std::string_view pointer, i64 value, std::string_view what,
                       Rank rank = Rank::checkpoint) {
    import.add(
        {std::string(pointer), json_of(value), concat(base_name(name), " ", what), RowKind::imported, rank});
  };
  i64 count = 0;
  for (const auto& [layer, last] : experts.last_expert) count = std::max(count, last + 1);
  // A shard may hold some of a layer's experts.
  if (is_whole) add("/model/n_routed_experts", count, "tensor names");
  if (experts.has_shapes) {
    add("/model/hidden_size", experts.hidden, "tensor shapes");
    // Trellis checkpoints may be sliced by rank.
    add("/model/moe_intermediate_size", experts.intermediate, "tensor shapes",
        experts.is_trellis ? Rank::assumed : Rank::checkpoint);
  }
  add_format(import, experts, name);
  const std::map<i64, i64>* tiers = nullptr;
  i64 most = 0;
  for (const auto& [layer, by_bits] : experts.tiers) {
    i64 sum = 0;
    for (const auto& [bits, number] : by_bits) sum += number;
    if (sum <= most) continue;
    most = sum;
    tiers = &by_bits;
  }
  if (!tiers) return;
  if (tiers->size() == 1) return add("/quant/bits", tiers->begin()->first, "shapes of *.trellis");
  std::string json;
  for (const auto& [bits, number] : *tiers)
    json += concat(json.empty() ? "" : ", ", "{\"bits\": ", bits, ", \"experts\": ", number, "}");
  import.add({"/quant/tiers", concat("[", json, "]"), concat(base_name(name), " shapes of *.trellis"),
              RowKind::imported, Rank::checkpoint});
}

bool read_json(Import& import, std::string_view name, std::string_view json, Experts& experts,
               bool* is_index) {
  HeaderReader reader(experts);
  const bool fine = nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  *is_index = reader.is_index;
  if (fine) return true;
  // The header is one line behind a length; its bytes are what can be named. They go before the problem does.
  Place place = place_in(name, json, reader.error_at > 0 ? reader.error_at - 1 : 0);
  constexpr std::size_t kLongestShown = 4096;
  const bool is_shown = place.text.size() <= kLongestShown;
  place.text = is_shown ? import.keep(std::string(place.text)) : std::string_view{};
  import.fail(reader.code, place, concat("the header is no JSON of tensors: ", reader.error),
              "is the file whole?");
  return false;
}

class File {
 public:
  explicit File(const std::string& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    is_regular_ = descriptor_ >= 0 && ::fstat(descriptor_, &status_) == 0 && S_ISREG(status_.st_mode);
  }
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  bool is_regular() const { return is_regular_; }
  std::size_t size() const { return static_cast<std::size_t>(status_.st_size); }
  bool read(char* out, std::size_t size) {
    while (size > 0) {
      const ssize_t got = ::read(descriptor_, out, size);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      out += got;
      size -= static_cast<std::size_t>(got);
    }
    return true;
  }

 private:
  int descriptor_;
  struct stat status_ {};
  bool is_regular_ = false;
};

// The JSON header of a .safetensors file; empty after a problem.
std::string read_header(Import& import, const std::string& path) {
  const std::string_view name = import.keep(path);
  const auto fail = [&](ErrorCode code, std::string message, std::string help) {
    import.fail(code, Place{.source = name}, std::move(message), std::move(help));
    return std::string();
  };
  File file(path);
  if (!file.is_open())
    return fail(ErrorCode::unreadable, concat("cannot read ", path, ": ", std::strerror(errno)),
                "check the path");
  if (!file.is_regular())
    return fail(ErrorCode::unreadable, concat(path, " is no regular file"),
                "give a .safetensors file or its index");
  unsigned char length[8];
  if (file.size() < 8 || !file.read(reinterpret_cast<char*>(length), 8))
    return fail(ErrorCode::invalid_value, "shorter than a header's length", "is the file whole?");
  std::uint64_t bytes = 0;
  for (int i = 7; i >= 0; --i) bytes = bytes << 8 | length[i];
  if (bytes > kMaxHeaderBytes)
    return fail(ErrorCode::too_large,
                concat("a header of ", bytes, " bytes; at most ", kMaxHeaderBytes, " are read"),
                "is this a safetensors file?");
  if (bytes > file.size() - 8)
    return fail(ErrorCode::invalid_value, "the file ends inside its header", "is the file whole?");
  std::string header(bytes, '\0');
  if (!file.read(header.data(), header.size()))
    return fail(ErrorCode::unreadable, "the header cannot be read", "");
  return header;
}

}  // namespace

void import_safetensors_header(Import& import, std::string_view name, std::string_view json, bool is_whole) {
  Experts experts;
  bool is_index = false;
  if (read_json(import, name, json, experts, &is_index))
    add_rows(import, experts, name, is_whole || is_index);
}

void import_safetensors(Import& import, const std::string& path) {
  const std::string_view name = import.keep(path);
  if (!path.ends_with(".json")) {
    const std::string header = read_header(import, path);
    if (!header.empty())
      import_safetensors_header(import, name, header, path.find("-of-") == std::string::npos);
    return;
  }
  File file(path);
  if (!file.is_regular() || file.size() > kMaxHeaderBytes)
    return import.fail(ErrorCode::unreadable, Place{.source = name},
                       file.is_open() ? concat(path, " is no regular file of at most 100 MiB")
                                      : concat("cannot read ", path),
                       "check the path");
  std::string json(file.size(), '\0');
  Experts experts;
  bool is_index = false;
  if (!file.read(json.data(), json.size()) || !read_json(import, name, json, experts, &is_index)) {
    if (import.problems.empty())
      import.fail(ErrorCode::unreadable, Place{.source = name}, "the index cannot be read", "");
    return;
  }
  if (!is_index)
    return import.fail(ErrorCode::missing_field, Place{.source = name}, "no weight_map in this index",
                       "give model.safetensors.index.json, or a .safetensors file");
  // Shapes stand in the shards; only a plain name beside the index is followed.
  const std::string shard = experts.shard;
  const std::string folder = path.substr(0, path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
  if (!shard.empty() && shard.find('/') == std::string::npos &&
      ::access((folder + shard).c_str(), R_OK) == 0) {
    const std::string header = read_header(import, folder + shard);
    if (header.empty() || !read_json(import, import.keep(folder + shard), header, experts, &is_index)) return;
  } else {
    import.note(concat(name, ": its shards are not beside it, so no shapes were read"));
  }
  add_rows(import, experts, name, true);
}

}  // namespace moeplan
