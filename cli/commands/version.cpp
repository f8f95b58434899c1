// moeplan version: what this build is made of and which contracts it knows.
#include "cli/build_info.hpp"
#include "cli/commands/finish.hpp"
#include "cli/io/schema.hpp"
#include "planner/core/contract.hpp"
#include "planner/core/text.hpp"

namespace moeplan {

ExitCode run_version(bool verbose) {
  std::string out = concat("moeplan ", kBuildInfo.version, "\n");
  if (verbose) {
    out += concat("git         ", kBuildInfo.git, "\n");
    out += concat("compiler    ", kBuildInfo.compiler, "\n");
    out += concat("build type  ", kBuildInfo.build_type, "\n");
    out += concat("libraries   ", kBuildInfo.libraries, "\n");
    for (const Contract& contract : contracts()) out += concat("contract    ", contract.id, "\n");
    for (const std::string_view name : schema_names()) out += concat("schema      moeplan.", name, "/1\n");
  }
  return print(out);
}

}  // namespace moeplan
