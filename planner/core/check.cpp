#include "planner/core/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace moeplan {

void fail_check(const char* condition, std::string_view message, const char* file, int line) {
  std::fprintf(stderr, "internal error: %.*s\n  check failed: %s\n  at %s:%d\n",
               static_cast<int>(message.size()), message.data(), condition, file, line);
  std::fprintf(stderr, "  this is a bug in moeplan; please report it with the input that led here\n");
  std::abort();
}

}  // namespace moeplan
