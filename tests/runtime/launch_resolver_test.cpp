// From a launch's arguments to a ready kernel: what is found, what is refused, and that nothing is allocated.
#include "runtime/jit/launch_resolver.hpp"

#include <cstdlib>
#include <map>
#include <new>

#include "tests/catch.hpp"

using namespace moeplan;

namespace {

// Counts what this thread asks of the heap.
thread_local long allocations = 0;

KernelVariant variant_of(i64 value) {
  KernelVariant variant{KernelId::arena_fill, {}};
  variant.values[0] = value;
  variant.values[3] = value % 7;
  return variant;
}

// A backend that counts what it is asked for, and the state of the stream it pretends.
struct Counted {
  int compiled = 0, loaded = 0;
  bool is_capturing = false;
  bool compile_fails = false;

  LaunchBackend backend() {
    return {
        .compile = [this](std::span<const KernelVariant> variants) -> Result<std::vector<CompiledKernel>> {
          if (compile_fails) return Error{ErrorCode::kernel_compile, "", "line 7", ""};
          compiled += static_cast<int>(variants.size());
          return std::vector<CompiledKernel>(variants.size());
        },
        .load = [this](const KernelVariant& variant, const CompiledKernel&) -> Result<ReadyKernel> {
          ++loaded;
          return ReadyKernel{.threads = variant.values[0]};
        },
        .is_capturing = [this](void*) { return is_capturing; }};
  }
};

}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

TEST_CASE("every variant of thousands is found with its own kernel, at the address that it had at first") {
  Counted counted;
  LaunchResolver resolver(counted.backend());
  std::map<i64, const ReadyKernel*> kernels;
  for (i64 value = 0; value < 5'000; ++value) kernels[value] = *resolver.find(variant_of(value), {});
  resolver.freeze();
  bool all_found = true;
  for (const auto& [value, kernel] : kernels)
    all_found = all_found && *resolver.find(variant_of(value), {}) == kernel && kernel->threads == value;
  CHECK(all_found);
  CHECK_FALSE(resolver.find(variant_of(5'000), {}));
  KernelVariant other = variant_of(5);
  other.kernel = KernelId::arena_scan;
  CHECK_FALSE(resolver.find(other, {}));
}

TEST_CASE("a resolved launch is found without an allocation, frozen or captured alike") {
  Counted counted;
  LaunchResolver resolver(counted.backend());
  const KernelVariant variants[] = {variant_of(8), variant_of(64)};
  REQUIRE(resolver.resolve(variants));
  resolver.freeze();
  counted.is_capturing = true;
  const long before = allocations;
  bool all_found = true;
  for (i64 m = 1; m <= 1'000; ++m) {
    const auto kernel = resolver.find(variants[m % 2], {.live_tokens = m, .block = 8});
    all_found = all_found && kernel && (*kernel)->threads == variants[m % 2].values[0];
  }
  CHECK(allocations == before);
  CHECK(all_found);
  CHECK(counted.compiled == 2);
}

TEST_CASE("kernels are compiled once, whoever asks again") {
  Counted counted;
  LaunchResolver resolver(counted.backend());
  const KernelVariant variants[] = {variant_of(8), variant_of(64)};
  REQUIRE(resolver.resolve(variants));
  REQUIRE(resolver.resolve(variants));
  REQUIRE(resolver.find(variant_of(16), {.live_tokens = 3, .block = 16}));
  REQUIRE(resolver.find(variant_of(16), {.live_tokens = 4, .block = 16}));
  CHECK(counted.compiled == 3);
  CHECK(counted.loaded == 3);
}

TEST_CASE("behind freeze a miss is an error that names m, block and key, and nothing compiles") {
  Counted counted;
  LaunchResolver resolver(counted.backend());
  resolver.freeze();
  const auto missing = resolver.find(variant_of(48), {.live_tokens = 33, .block = 48});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == ErrorCode::launch_not_resolved);
  CHECK(missing.error().message ==
        "a launch of m=33 at block 48 needs kernel arena_fill, which was not resolved with its plan; nothing "
        "compiles behind freeze()");
  const KernelVariant variants[] = {variant_of(48)};
  CHECK_FALSE(resolver.resolve(variants));
  CHECK(counted.compiled == 0);
}

TEST_CASE("while a stream is captured a miss is the same error, and a later eager launch compiles") {
  Counted counted;
  counted.is_capturing = true;
  LaunchResolver resolver(counted.backend());
  const auto missing = resolver.find(variant_of(8), {.live_tokens = 5, .block = 8});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().message.find("m=5 at block 8") != std::string::npos);
  CHECK(missing.error().message.ends_with("while a stream is captured"));
  CHECK(counted.compiled == 0);
  counted.is_capturing = false;
  CHECK(resolver.find(variant_of(8), {.live_tokens = 5, .block = 8}));
  CHECK(counted.compiled == 1);
}

TEST_CASE("a kernel that fails to compile is no hit the next time") {
  Counted counted;
  counted.compile_fails = true;
  LaunchResolver resolver(counted.backend());
  CHECK_FALSE(resolver.find(variant_of(8), {}));
  counted.compile_fails = false;
  CHECK(resolver.find(variant_of(8), {}));
}
