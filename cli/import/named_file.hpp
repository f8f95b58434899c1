// Files named inside other files: read only where they cannot lead anywhere else.
#pragma once

#include <string>

#include "planner/core/result.hpp"

namespace moeplan {

constexpr std::size_t kMaxNamedFileBytes = std::size_t{1} << 20;

// The text of `name`, looked up in `folder`. It has to lie under the folder, links followed, and be a regular
// file of at most kMaxNamedFileBytes.
Result<std::string> read_named_file(const std::string& folder, const std::string& name);

// Whether such a file exists.
bool has_named_file(const std::string& folder, const std::string& name);

}  // namespace moeplan
