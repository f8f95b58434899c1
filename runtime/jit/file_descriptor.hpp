// FileDescriptor: closed when it goes.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

namespace moeplan {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor() { close(); }

  explicit operator bool() const { return number_ >= 0; }
  int number() const { return number_; }
  // Hands it on, open.
  int release() { return std::exchange(number_, -1); }
  // Closes now. 0, or errno: some file systems tell only here that what was written did not fit.
  int close() {
    const int number = release();
    return number >= 0 && ::close(number) != 0 ? errno : 0;
  }

 private:
  int number_ = -1;
};

}  // namespace moeplan
