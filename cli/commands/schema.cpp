// moeplan schema: the JSON Schema of a config, for editors and CI.
#include "cli/io/schema.hpp"

#include "cli/commands/options.hpp"
#include "cli/io/text_file.hpp"

namespace moeplan {

ExitCode run_schema() { return write_out(config_schema()) ? ExitCode::ok : ExitCode::input; }

}  // namespace moeplan
