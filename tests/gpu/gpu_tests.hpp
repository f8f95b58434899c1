// What the tests on a GPU share beside the GPU.
#pragma once

#include "tests/catch.hpp"
#include "tests/gpu/gpu.hpp"
#include "tests/support.hpp"

namespace moeplan::test {

// The value, or a failed test that says why there is none.
template <class T>
T must(Result<T> result) {
  if (!result) FAIL(result.error().message);
  return std::move(*result);
}

// One for all tests of the program.
inline Gpu& gpu() {
  static const std::unique_ptr<Gpu> opened = must(Gpu::open());
  return *opened;
}

// With a resolver of its own, which outlives it.
struct ResolvedArena {
  std::unique_ptr<LaunchResolver> resolver;
  DeviceArena arena;
};
inline ResolvedArena arena_of(Placement placement) {
  auto resolver = std::make_unique<LaunchResolver>(gpu().resolver());
  must(resolver->resolve(kArenaKernels));
  DeviceArena arena = must(DeviceArena::create(std::move(placement), *resolver, gpu().launcher));
  return {std::move(resolver), std::move(arena)};
}

// What both rounds saw of a thing that is done in each.
template <class Work>
ArenaFindings findings_after(DeviceArena& arena, const Work& work) {
  ArenaFindings seen;
  for (const ArenaPattern& pattern : kArenaRounds) {
    must(arena.fill(pattern, nullptr));
    work();
    ArenaFindings round = must(arena.scan(nullptr));
    if (&pattern == kArenaRounds) {
      seen = std::move(round);
    } else {
      merge(seen, round);
    }
  }
  return seen;
}

}  // namespace moeplan::test
