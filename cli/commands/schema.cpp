// moeplan schema: the JSON Schema of a config, for editors and CI.
#include "cli/io/schema.hpp"

#include "cli/commands/finish.hpp"

namespace moeplan {

ExitCode run_schema() { return print(config_schema()); }

}  // namespace moeplan
