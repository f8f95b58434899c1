// moeplan version: what this build is made of and which contracts it knows.
#include "cli/build_info.hpp"
#include "cli/commands/finish.hpp"
#include "cli/io/schema.hpp"
#include "planner/core/contract.hpp"
#include "planner/core/text.hpp"
#include "runtime/device/device.hpp"
#include "runtime/jit/nvrtc.hpp"

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
    const std::string cuda = cuda_runtime_version();
    out += concat("cuda        ",
                  cuda.empty() ? "none: this build plans and compiles, it runs no kernels"
                               : concat("runtime ", cuda, ", linked in"),
                  "\n");
    const auto nvrtc = Nvrtc::load(read_runtime_environment());
    out += concat("nvrtc       ",
                  nvrtc ? concat(nvrtc->version().major, ".", nvrtc->version().minor, ", ", nvrtc->path())
                        : std::string("none here: it compiles no kernels; moeplan devices "
                                      "--probe says where it looked"),
                  "\n");
    for (const std::string_view name : schema_names()) out += concat("schema      moeplan.", name, "/1\n");
  }
  return print(out);
}

}  // namespace moeplan
