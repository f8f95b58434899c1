// How many blocks are resident: what jit/architecture.hpp computes without a GPU is what this GPU answers.
#include "planner/core/text.hpp"
#include "tests/gpu/gpu_tests.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

// Holds HELD values a thread across a barrier, and so at least as many registers.
constexpr std::string_view kHoldText = R"(
extern "C" __global__ void hold(float* memory) {
#if STATIC_BYTES > 0
  __shared__ char kept[STATIC_BYTES];
  kept[threadIdx.x % STATIC_BYTES] = static_cast<char>(threadIdx.x);
#endif
  float held[HELD];
#pragma unroll
  for (int i = 0; i < HELD; ++i) held[i] = memory[i * 4096 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < HELD; ++i) memory[(HELD + i) * 4096 + threadIdx.x] = held[HELD - 1 - i];
#if STATIC_BYTES > 0
  memory[threadIdx.x] = kept[(threadIdx.x * 7) % STATIC_BYTES];
#endif
}
)";

}  // namespace

TEST_CASE("resident blocks of the catalog's kernels are what this GPU answers") {
  LaunchResolver resolver = gpu().resolver();
  const std::vector<KernelVariant> variants = catalog_variants(gpu().launcher.architecture());
  must(resolver.resolve(variants));
  for (const KernelVariant& variant : variants) {
    INFO(text_of(variant));
    const ReadyKernel& kernel = *must(resolver.find(variant, {}));
    CHECK(kernel.resident_blocks_per_sm ==
          resident_blocks(gpu().launcher.architecture(), kernel.resources.registers, kernel.threads,
                          kernel.resources.static_shared_bytes + kernel.shared_bytes));
  }
}

TEST_CASE("resident blocks of kernels with many and few registers and all shared sizes are what it answers") {
  const Architecture& architecture = gpu().launcher.architecture();
  for (const int held : {1, 20, 40, 64, 96, 128, 160, 220}) {
    for (const int static_bytes : {0, 3000}) {
      const std::string options[] = {concat("-DHELD=", held), concat("-DSTATIC_BYTES=", static_bytes)};
      const std::string cubin = must(compile_text(gpu(), kHoldText, options));
      const i64 most_dynamic = architecture.shared_bytes_per_block - 3072;
      const ReadyKernel kernel = must(
          gpu().launcher.load({.name = "hold", .cubin = cubin, .threads = 32, .shared_bytes = most_dynamic}));
      cudaFuncAttributes attributes{};
      must(check_cuda(cudaFuncGetAttributes(&attributes, kernel.function), "cudaFuncGetAttributes"));
      CHECK(attributes.numRegs >= held);
      for (const i64 threads : {32, 64, 96, 128, 256, 384, 512, 1024}) {
        if (threads > attributes.maxThreadsPerBlock) continue;
        for (const i64 dynamic_bytes :
             {i64{0}, i64{1}, i64{1024}, i64{8000}, i64{33'000}, i64{49'152}, i64{73'728}, most_dynamic}) {
          INFO(concat(attributes.numRegs, " registers, ", threads, " threads, ", attributes.sharedSizeBytes,
                      " + ", dynamic_bytes, " bytes of shared memory"));
          int blocks = 0;
          must(check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                              &blocks, kernel.function, static_cast<int>(threads),
                              static_cast<std::size_t>(dynamic_bytes)),
                          "cudaOccupancyMaxActiveBlocksPerMultiprocessor"));
          CHECK(blocks == resident_blocks(architecture, attributes.numRegs, threads,
                                          static_cast<i64>(attributes.sharedSizeBytes) + dynamic_bytes));
        }
      }
    }
  }
}
