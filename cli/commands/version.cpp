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
    constexpr std::string_view kDirty = "-dirty";
    const bool is_dirty = kBuildInfo.git.ends_with(kDirty);
    const std::string_view commit =
        kBuildInfo.git.substr(0, kBuildInfo.git.size() - (is_dirty ? kDirty.size() : 0));
    out += concat("git         ", commit, "\n");
    out += concat("tree        ",
                  commit == "unknown" ? "not a checkout"
                  : is_dirty          ? "dirty: it differs from the commit"
                                      : "clean",
                  "\n");
    out += concat("compiler    ", kBuildInfo.compiler, "\n");
    out += concat("build type  ", kBuildInfo.build_type, "\n");
    out += concat("libraries   ", kBuildInfo.libraries, "\n");
    for (const Contract& contract : contracts()) out += concat("contract    ", contract.id, "\n");
    out += "cuda        none: this build plans, it compiles and runs no kernels\n";
    for (const std::string_view name : schema_names()) out += concat("schema      moeplan.", name, "/1\n");
  }
  return print(out);
}

}  // namespace moeplan
