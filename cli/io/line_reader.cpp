#include "cli/io/line_reader.hpp"

#include <unistd.h>

#include <cerrno>

namespace moeplan {

bool LineReader::fill() {
  constexpr std::size_t kChunk = std::size_t{64} << 10;
  if (begin_ > 0) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  const std::size_t size = buffer_.size();
  buffer_.resize(size + kChunk);
  ssize_t got = 0;
  do {
    got = ::read(descriptor_, buffer_.data() + size, kChunk);
  } while (got < 0 && errno == EINTR);
  if (got < 0) error_number_ = errno;
  buffer_.resize(size + (got > 0 ? static_cast<std::size_t>(got) : 0));
  at_end_ = got <= 0;
  return !at_end_;
}

std::optional<Line> LineReader::next() {
  std::size_t searched = begin_;
  bool too_long = false;
  for (;;) {
    const std::size_t end = buffer_.find('\n', searched);
    if (end != std::string::npos) {
      Line line{std::string_view(buffer_).substr(begin_, end - begin_), too_long};
      begin_ = end + 1;
      if (line.text.size() > limit_) line.too_long = true;
      if (line.too_long) line.text = {};
      return line;
    }
    if (at_end_) {
      if (begin_ == buffer_.size() && !too_long) return std::nullopt;
      Line line{std::string_view(buffer_).substr(begin_), too_long || buffer_.size() - begin_ > limit_};
      begin_ = buffer_.size();
      if (line.too_long) line.text = {};
      return line;
    }
    if (buffer_.size() - begin_ > limit_) {
      too_long = true;
      begin_ = buffer_.size();  // drops what was read of this line
    }
    searched = buffer_.size() - begin_;
    fill();
  }
}

}  // namespace moeplan
