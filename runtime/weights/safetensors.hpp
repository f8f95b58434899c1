// Safetensors files: the tensors that a header names, and ranges of a file's bytes. Never a file as a whole.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "planner/core/integer.hpp"
#include "planner/core/result.hpp"
#include "runtime/jit/file_descriptor.hpp"

namespace moeplan {

inline constexpr i64 kMaxHeaderBytes = i64{100} << 20;
// Of a shape that are kept; none that is read for its values has as many.
inline constexpr std::size_t kMostDimensions = 8;

// A tensor as a header states it, none of which is checked: sizes are -1 where they are no whole numbers.
struct StatedTensor {
  std::string_view name;
  std::string_view dtype;
  std::span<const i64> shape;  // at most kMostDimensions
  i64 begin = -1, end = -1;    // of its bytes behind the header; -1: not stated
};

// Who hears of what a header or an index names, in its order. Null: nobody.
struct TensorVisitor {
  std::function<void(const StatedTensor& tensor)> tensor;
  std::function<void(std::string_view name, std::string_view file)> placed;  // by an index's weight_map
};

// What is wrong with a text, and at which of its bytes.
struct HeaderMistake {
  ErrorCode code;
  std::string message;
  std::size_t at;
};

// Reads the JSON of a header or of an index piece by piece: both may name millions of tensors.
std::optional<HeaderMistake> visit_tensors(std::string_view json, const TensorVisitor& visitor);

// A file that is read by ranges, which may lie behind 4 GiB.
class RangedFile {
 public:
  // Error `unreadable`: it is not there, or no regular file; says what to give in its place.
  static Result<RangedFile> open(const std::string& path);

  const std::string& path() const { return path_; }
  i64 bytes() const { return bytes_; }
  // All of `out`, or an Error that names the file.
  Status read(i64 offset, std::span<unsigned char> out) const;

 private:
  RangedFile(std::string path, FileDescriptor descriptor, i64 bytes)
      : path_(std::move(path)), descriptor_(std::move(descriptor)), bytes_(bytes) {}

  std::string path_;
  FileDescriptor descriptor_;
  i64 bytes_;
};

// The JSON of a .safetensors file; its tensors' bytes start behind it. The message of an error does not name
// the file.
Result<std::string> read_header(const RangedFile& file);
inline i64 data_begin(std::string_view header) { return 8 + static_cast<i64>(header.size()); }

// The JSON of an index, whose size is bounded as a header's is.
Result<std::string> read_index(const RangedFile& file);

// Where a shard that an index names lies: beside the index. None: its name is no plain file name, and is not
// followed.
std::optional<std::string> shard_path(std::string_view index_path, std::string_view shard);

}  // namespace moeplan
