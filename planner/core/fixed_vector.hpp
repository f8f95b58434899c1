// A vector of at most N items that never allocates and leaves unused places untouched.
#pragma once

#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "planner/core/check.hpp"

namespace moeplan {

// Laying out an arena must cost nanoseconds, so its tensors live inside the layout itself.
template <class T, std::size_t N>
class FixedVector {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  FixedVector() {}
  FixedVector(const FixedVector& other) { *this = other; }
  FixedVector& operator=(const FixedVector& other) {
    size_ = 0;
    for (const T& item : other) push_back(item);
    return *this;
  }

  void push_back(const T& item) { emplace_back(item); }
  template <class... Arguments>
  T& emplace_back(Arguments&&... arguments) {
    MOEPLAN_CHECK(size_ < N, "fixed vector is full");
    return *new (storage_ + size_++ * sizeof(T)) T{std::forward<Arguments>(arguments)...};
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() { return std::launder(reinterpret_cast<T*>(storage_)); }
  T* end() { return begin() + size_; }
  const T* begin() const { return std::launder(reinterpret_cast<const T*>(storage_)); }
  const T* end() const { return begin() + size_; }
  T& operator[](std::size_t index) { return begin()[index]; }
  const T& operator[](std::size_t index) const { return begin()[index]; }
  const T& back() const { return begin()[size_ - 1]; }

 private:
  std::size_t size_ = 0;
  alignas(T) std::byte storage_[N * sizeof(T)];
};

}  // namespace moeplan
