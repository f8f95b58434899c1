// The texts kernels are compiled from: embedded in the binary, or from a folder while they are edited.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/result.hpp"
#include "runtime/environment.hpp"

namespace moeplan {

// A text under the name that #include gives it, such as "kernels/ptx.cuh".
struct SourceText {
  std::string_view name;
  std::string_view text;
};

// Made at build time of kernels/ and of the geometry headers of planner/.
std::span<const SourceText> embedded_sources();

// A kernel's own text with every text it includes.
struct KernelSource {
  struct Text {
    std::string name;
    std::string text;
  };
  Text main;
  std::vector<Text> headers;  // sorted by name
  std::string digest;         // sha256_hex over all names and texts
};

// The text of a kernel and what it includes, directly or not. Texts of kernels/ come from
// MOEPLAN_KERNEL_DIR where that is set; the planner's headers are always the binary's, so that kernels
// cannot part from the plan. Error: a text is missing.
Result<KernelSource> kernel_source(std::string_view name, const RuntimeEnvironment& environment);

}  // namespace moeplan
