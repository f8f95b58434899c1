#include "cli/commands/kernel_compiler.hpp"

#include "cli/commands/finish.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

std::optional<CubinCache> open_cache(const RuntimeEnvironment& environment) {
  const auto unused = [](const Error& error) {
    warn(concat("kernels are not cached: ", error.message,
                error.help.empty() ? "" : concat("; ", error.help)));
    return std::nullopt;
  };
  const auto folder = cache_folder(environment);
  if (!folder) return unused(folder.error());
  auto cache = CubinCache::open(*folder, kDefaultCacheLimit, warn);
  if (!cache) return unused(cache.error());
  return std::move(*cache);
}

}  // namespace

Result<Compiler> kernel_compiler(bool uses_cache) {
  RuntimeEnvironment environment = read_runtime_environment();
  auto nvrtc = Nvrtc::load(environment);
  if (!nvrtc) return nvrtc.error();
  std::optional<CubinCache> cache;
  if (uses_cache) cache = open_cache(environment);
  return Compiler(std::move(*nvrtc), std::move(environment), std::move(cache));
}

void note_kernel_dir(Report& report, const Compiler& compiler) {
  if (compiler.kernel_dir())
    report.notes.push_back(
        concat("texts of the kernels are from ", *compiler.kernel_dir(), ", MOEPLAN_KERNEL_DIR"));
}

}  // namespace moeplan
