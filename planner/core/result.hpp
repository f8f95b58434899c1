// Result<T>: a value, or the user's mistake with its place and a remedy.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "planner/core/check.hpp"
#include "planner/core/error_code.hpp"

namespace moeplan {

// What was wrong with an input, where, and what would work.
struct Error {
  ErrorCode code;
  std::string pointer;  // JSON pointer of the offending field, "" when the whole input is meant
  std::string message;  // what was wrong
  std::string help;     // what would work; may be empty
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(const T& value) : state_(std::in_place_index<0>, value) {}
  Result(T&& value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return state_.index() == 0; }
  const T& operator*() const { return value(); }
  T& operator*() { return const_cast<T&>(value()); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &const_cast<T&>(value()); }

  const Error& error() const {
    MOEPLAN_CHECK(state_.index() == 1, "error() of a Result that holds a value");
    return *std::get_if<1>(&state_);
  }

 private:
  const T& value() const {
    MOEPLAN_CHECK(state_.index() == 0, "value of a Result that holds an error");
    return *std::get_if<0>(&state_);
  }

  std::variant<T, Error> state_;
};

// Success without a value.
struct Ok {};
using Status = Result<Ok>;

}  // namespace moeplan
