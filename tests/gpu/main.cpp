// Runs what needs a GPU; where there is none it says why and leaves with 77, which ctest counts as skipped.
#if !__has_include(<catch2/catch_all.hpp>)
#define CATCH_CONFIG_RUNNER
#endif
#include <iostream>

#include "runtime/device/launcher.hpp"
#include "tests/catch.hpp"

int main(int count, char** arguments) {
  constexpr int kSkipped = 77;
  if (const auto launcher = moeplan::Launcher::create(); !launcher) {
    std::cout << "skipped: " << launcher.error().message << "\n";
    return kSkipped;
  }
  return Catch::Session().run(count, arguments);
}
