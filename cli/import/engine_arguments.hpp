// An engine's arguments, however they were written (flags, a logged dict, launcher variables), to config
// rows.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/import/import.hpp"
#include "cli/import/literal.hpp"

namespace moeplan {

// One argument under the name the engine's own dict has: "tensor_parallel_size".
struct EngineArgument {
  std::string name;
  Literal value;
  std::string from;  // for the provenance
  Place place;       // for mistakes
};

// Adds what the arguments say. Arguments without a field of ours are left alone.
void import_arguments(Import& import, std::span<const EngineArgument> arguments);

// Rows that hold when no argument said otherwise: TP 1, utilization 0.92. `from` names the argument list.
void assume_engine_defaults(Import& import, std::string_view from);

// Whether the deployment config carries a variable of that name: only those that decide memory. Others could
// be secrets, and are never printed.
bool takes_variable(std::string_view name);

// A row of /deployment/env for a variable that is taken; true when it was.
bool import_variable(Import& import, std::string_view name, std::string_view value, std::string from);

}  // namespace moeplan
