// Lines of a stream in constant memory.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace moeplan {

struct Line {
  std::string_view text;  // without its newline; valid until the next read
  bool too_long = false;  // longer than the limit: text is empty, the rest of the line was skipped
};

class LineReader {
 public:
  // Reads from a file descriptor that the caller keeps open.
  explicit LineReader(int descriptor, std::size_t limit) : descriptor_(descriptor), limit_(limit) {}

  // The next line; none at the end of the stream or when reading failed (see error_number()).
  std::optional<Line> next();

  // errno of a failed read, else 0.
  int error_number() const { return error_number_; }

 private:
  bool fill();

  int descriptor_;
  std::size_t limit_;
  std::string buffer_;
  std::size_t begin_ = 0;
  bool at_end_ = false;
  int error_number_ = 0;
};

}  // namespace moeplan
