// Environment: the variables of a planned process, as given. Never the tool's own.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace moeplan {

using Environment = std::vector<std::pair<std::string, std::string>>;

}  // namespace moeplan
