// moeplan schema: the JSON Schemas of configs and answers, for editors and CI.
#include "cli/io/schema.hpp"

#include "cli/commands/finish.hpp"

namespace moeplan {

ExitCode run_schema(const std::string& name) { return print(schema_named(name)); }

}  // namespace moeplan
