// Reading inputs and writing answers.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "planner/core/result.hpp"

namespace moeplan {

// The whole of a file, or of standard input for "-". At most kMaxInputBytes.
Result<std::string> read_text(const std::string& path);

// Writes all of `text` to standard output; an Error when it cannot be written. A reader that closed the pipe
// ends the process quietly.
Status write_out(std::string_view text);

// Writes a file whole or not at all: readers see the old text or the new one. A device or a pipe is written
// as it is.
Status write_file(const std::string& path, std::string_view text);

// Whether write_file could, as far as can be told ahead.
Status may_write_file(const std::string& path);

// Adds to the end of a file, which is made when it is not there.
Status append_file(const std::string& path, std::string_view text);

// A file that is written piece by piece, so that readers see it grow.
class GrowingFile {
 public:
  // Replaces what a regular file holds, or adds to it.
  static Result<GrowingFile> open(const std::string& path, bool appends);
  GrowingFile(GrowingFile&& other) noexcept;
  GrowingFile& operator=(GrowingFile&&) = delete;
  ~GrowingFile();

  Status write(std::string_view text);

 private:
  GrowingFile(std::string path, int descriptor) : path_(std::move(path)), descriptor_(descriptor) {}

  std::string path_;
  int descriptor_;
};

}  // namespace moeplan
