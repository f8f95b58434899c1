// moeplan version: what this build is made of and which contracts it knows.
#include "cli/build_info.hpp"
#include "cli/commands/finish.hpp"
#include "planner/core/contract.hpp"
#include "planner/core/text.hpp"

namespace moeplan {

namespace {

// What the answers and the config call themselves.
constexpr std::string_view kSchemas[] = {"moeplan.config/1",   "moeplan.plan/1",    "moeplan.explain/1",
                                         "moeplan.capacity/1", "moeplan.devices/1", "moeplan.reconcile/1",
                                         "moeplan.errors/1"};

}  // namespace

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
    out += "schemas     ";
    out += join(kSchemas, ", ");
    out += "\n";
  }
  return print(out);
}

}  // namespace moeplan
