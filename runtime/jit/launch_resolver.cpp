#include "runtime/jit/launch_resolver.hpp"

#include <algorithm>
#include <cstdint>

#include "planner/core/text.hpp"

namespace moeplan {
// A multiply and a fold a word: the table is small, what counts is that nothing is built.
std::size_t LaunchResolver::Hash::operator()(const KernelVariant& variant) const noexcept {
  std::uint64_t hash = static_cast<std::uint64_t>(variant.kernel) + 0x9E3779B97F4A7C15u;
  for (const i64 value : variant.values) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0xD6E8FEB86659FD93u;
    hash ^= hash >> 32;
  }
  return static_cast<std::size_t>(hash);
}

Status LaunchResolver::resolve(std::span<const KernelVariant> variants) {
  std::vector<KernelVariant> missing;
  for (const KernelVariant& variant : variants) {
    if (!memo_.contains(variant) && std::ranges::find(missing, variant) == missing.end())
      missing.push_back(variant);
  }
  if (missing.empty()) return Ok{};
  if (is_frozen_)
    return Error{ErrorCode::launch_not_resolved, "",
                 concat("kernel ", text_of(missing.front()), " is not resolved, and launches are frozen"),
                 "resolve every plan before freeze()"};
  auto compiled = backend_.compile(missing);
  if (!compiled) return compiled.error();
  for (std::size_t i = 0; i < missing.size(); ++i) {
    auto ready = backend_.load(missing[i], (*compiled)[i]);
    if (!ready) return ready.error();
    memo_.emplace(missing[i], *ready);
  }
  return Ok{};
}

Result<const ReadyKernel*> LaunchResolver::find_missing(const KernelVariant& variant,
                                                        const LaunchSite& site) {
  const bool is_capturing = backend_.is_capturing(site.stream);
  if (is_frozen_ || is_capturing)
    return Error{ErrorCode::launch_not_resolved, "",
                 concat("a launch of m=", site.live_tokens, " at block ", site.block, " needs kernel ",
                        text_of(variant), ", which was not resolved with its plan; nothing compiles ",
                        is_capturing ? "while a stream is captured" : "behind freeze()"),
                 "resolve the plan with every block size it can launch, then freeze or capture"};
  if (const Status resolved = resolve({&variant, 1}); !resolved) return resolved.error();
  return &memo_.at(variant);
}

}  // namespace moeplan
