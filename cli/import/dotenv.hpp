// Dotenv files: NAME=value lines, as compose reads them.
#pragma once

#include <string_view>
#include <vector>

#include "cli/import/import.hpp"
#include "cli/import/shell.hpp"

namespace moeplan {

// The variables of `text`, in order; mistakes go to the import. Later lines may use earlier ones.
std::vector<ShellVariable> read_dotenv(Import& import, std::string_view name, std::string_view text);

}  // namespace moeplan
