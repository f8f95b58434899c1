// From the rows of a source to a config, for `import` and the commands that read what is deployed.
#pragma once

#include <memory>
#include <string>

#include "cli/commands/options.hpp"
#include "cli/import/import.hpp"

namespace moeplan {

// Adds what the options and the names found say, then picks one row a field. Mistakes go to the import.
void complete_import(Import& import, const ImportOptions& options);

// The config as our own reader judges it: a value out of bounds is a problem that names its source. Fields
// may be missing when it is not whole.
std::unique_ptr<Config> read_back(Import& import, const std::string& text, bool is_whole);

}  // namespace moeplan
