// MOEPLAN_CHECK: for our own mistakes. A user's mistake is an Error in a Result (result.hpp).
#pragma once

#include <string_view>

namespace moeplan {

// Prints what, file and line to stderr and aborts. Never returns, in any build type.
[[noreturn]] void fail_check(const char* condition, std::string_view message, const char* file, int line);

}  // namespace moeplan

#define MOEPLAN_CHECK(condition, message)                                               \
  do {                                                                                  \
    if (!(condition)) ::moeplan::fail_check(#condition, (message), __FILE__, __LINE__); \
  } while (false)
