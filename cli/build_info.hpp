// What this build was made of. build_info.cpp is written by CMake.
#pragma once

#include <string_view>

namespace moeplan {

struct BuildInfo {
  std::string_view version;
  std::string_view git;  // commit, with "-dirty" when the tree differed; "unknown" outside a checkout
  std::string_view compiler;
  std::string_view build_type;
  std::string_view libraries;
};

extern const BuildInfo kBuildInfo;

}  // namespace moeplan
