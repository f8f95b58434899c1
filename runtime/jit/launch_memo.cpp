#include "runtime/jit/launch_memo.hpp"

#include <cstdint>
#include <utility>

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// A multiply and a fold a word: the table is small, what counts is that nothing is built.
std::size_t hash_of(const KernelVariant& variant) {
  std::uint64_t hash = static_cast<std::uint64_t>(variant.kernel) + 0x9E3779B97F4A7C15u;
  for (const i64 value : variant.values) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0xD6E8FEB86659FD93u;
    hash ^= hash >> 32;
  }
  return static_cast<std::size_t>(hash);
}

}  // namespace

LaunchMemo::LaunchMemo() : slots_(64) {}

const ReadyKernel* LaunchMemo::find(const KernelVariant& variant) const noexcept {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = hash_of(variant) & mask; slots_[i].kernel; i = (i + 1) & mask) {
    if (slots_[i].variant == variant) return slots_[i].kernel;
  }
  return nullptr;
}

void LaunchMemo::put(const Slot& slot) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t i = hash_of(slot.variant) & mask;
  while (slots_[i].kernel) i = (i + 1) & mask;
  slots_[i] = slot;
}

const ReadyKernel* LaunchMemo::insert(const KernelVariant& variant, const ReadyKernel& kernel) {
  if (const ReadyKernel* there = find(variant)) return there;
  if (2 * (kernels_.size() + 1) > slots_.size()) {
    const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(2 * slots_.size()));
    for (const Slot& slot : old) {
      if (slot.kernel) put(slot);
    }
  }
  kernels_.push_back(std::make_unique<ReadyKernel>(kernel));
  put({variant, kernels_.back().get()});
  return kernels_.back().get();
}

Status LaunchResolver::resolve(std::span<const KernelVariant> variants) {
  std::vector<KernelVariant> missing;
  for (const KernelVariant& variant : variants) {
    if (!memo_.find(variant)) missing.push_back(variant);
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
    memo_.insert(missing[i], *ready);
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
  return memo_.find(variant);
}

}  // namespace moeplan
