// Launches on a GPU: resolved with their plan, captured, frozen, and kept to what can be resident.
#include <string>

#include "planner/core/text.hpp"
#include "runtime/device/scratch_binding.hpp"
#include "tests/gpu/gpu_tests.hpp"

using namespace moeplan;
using namespace moeplan::test;

namespace {

void check_names_launch(const Error& error) {
  INFO(error.message);
  CHECK(error.code == ErrorCode::launch_not_resolved);
  CHECK(error.message.find("m=7") != std::string::npos);
  CHECK(error.message.find("block 16") != std::string::npos);
  CHECK(error.message.find("arena_scan") != std::string::npos);
}

// Every block says that it came, waits until all have, and writes down how many it saw.
constexpr std::string_view kBarrierText = R"(
extern "C" __global__ void wait_for_all(unsigned* arrived, unsigned* seen) {
  if (threadIdx.x != 0) return;
  __threadfence();
  atomicAdd(arrived, 1u);
  while (*static_cast<volatile unsigned*>(arrived) < gridDim.x) {
  }
  seen[blockIdx.x] = *static_cast<volatile unsigned*>(arrived);
}
)";

}  // namespace

TEST_CASE("behind freeze() a kernel that was not resolved is refused with m, block and key, uncompiled") {
  LaunchResolver resolver = gpu().resolver();
  must(resolver.resolve({&kArenaFill, 1}));
  const std::size_t compiled = gpu().compiled.size();
  resolver.freeze();
  Stream stream;
  const auto found = resolver.find(kArenaScan, {.live_tokens = 7, .block = 16, .stream = stream});
  REQUIRE_FALSE(found);
  check_names_launch(found.error());
  CHECK(gpu().compiled.size() == compiled);
  CHECK(resolver.find(kArenaFill, {.live_tokens = 7, .block = 16, .stream = stream}));
  CHECK_FALSE(resolver.resolve({&kArenaScan, 1}));
}

TEST_CASE("a kernel that was not resolved is refused under capture, and the capture stays whole") {
  const auto [warm, arena] = arena_of(placed(glm_decode(), GuardMode::packed));
  LaunchResolver resolver = gpu().resolver();
  must(resolver.resolve({&kArenaFill, 1}));
  const std::size_t compiled = gpu().compiled.size();
  Stream stream;
  CHECK_FALSE(Launcher::is_capturing(stream));

  must(Graph::begin(stream));
  CHECK(Launcher::is_capturing(stream));
  const auto missed = resolver.find(kArenaScan, {.live_tokens = 7, .block = 16, .stream = stream});
  const auto hit = resolver.find(kArenaFill, {.live_tokens = 7, .block = 16, .stream = stream});
  const Status launched = arena.launch_fill(kArenaRounds[0], stream);
  auto graph = Graph::end(stream);

  REQUIRE_FALSE(missed);
  check_names_launch(missed.error());
  CHECK(gpu().compiled.size() == compiled);
  CHECK(hit);
  CHECK(launched);
  CHECK(must(std::move(graph)).replay(stream));
  CHECK_FALSE(Launcher::is_capturing(stream));
  // Outside the capture the same launch compiles.
  CHECK(resolver.find(kArenaScan, {.live_tokens = 7, .block = 16, .stream = stream}));
}

TEST_CASE("a kernel's first launch may be a captured one") {
  auto [resolver, arena] = arena_of(placed(glm_decode(), GuardMode::packed));
  must(set_bytes(arena.allocation(), 0, arena.placement().allocation_bytes));
  Stream stream;
  must(Graph::begin(stream));
  const Status launched = arena.launch_fill(kArenaRounds[1], stream);
  auto graph = Graph::end(stream);
  CHECK(launched);
  must(must(std::move(graph)).replay(stream));
  const auto bytes = must(bytes_at(arena.address("fc1_c_tmp"), 64));
  CHECK(bytes == std::vector<unsigned char>(64, 0x5A));
}

TEST_CASE("a graph replayed behind freeze() writes the bytes that the eager launch wrote") {
  auto [resolver, arena] = arena_of(placed(glm_decode(), GuardMode::strict));
  resolver->freeze();
  const i64 bytes = arena.placement().allocation_bytes;
  Stream stream;
  must(arena.fill(kArenaRounds[0], stream));
  must(check_cuda(cudaStreamSynchronize(stream), "an eager launch"));
  const auto eager = must(bytes_at(arena.allocation(), bytes));

  must(Graph::begin(stream));
  const auto found = resolver->find(kArenaFill, {.stream = stream});
  const Status launched = arena.launch_fill(kArenaRounds[0], stream);
  Graph graph = must(Graph::end(stream));
  CHECK(found);
  must(launched);
  for (int replay = 0; replay < 3; ++replay) {
    must(set_bytes(arena.allocation(), 0, bytes));
    must(graph.replay(stream));
    // In brackets: a failure must not print millions of bytes.
    CHECK((must(bytes_at(arena.allocation(), bytes)) == eager));
  }
}

TEST_CASE("a grid with a barrier runs when it is resident, and one block more is refused with the numbers") {
  const std::string cubin = must(compile_text(gpu(), kBarrierText, {}));
  const GpuProfile& profile = gpu().launcher.gpu();
  // All the shared memory a block may have: one block a multiprocessor.
  const ReadyKernel kernel =
      must(gpu().launcher.load({.name = "wait_for_all",
                                .cubin = cubin,
                                .threads = 256,
                                .shared_bytes = gpu().launcher.architecture().shared_bytes_per_block,
                                .has_grid_barrier = true}));
  CHECK(kernel.resident_blocks_per_sm == 1);
  const i64 grid = profile.sm_count;
  const auto memory = must(DeviceMemory::allocate(4 * (1 + grid), "a grid barrier"));
  unsigned* arrived = reinterpret_cast<unsigned*>(memory.data());
  unsigned* seen = arrived + 1;
  void* arguments[] = {&arrived, &seen};

  Stream stream;
  const auto check_all_seen = [&] {
    const auto bytes = must(bytes_at(memory.data(), memory.bytes()));
    const auto* counts = reinterpret_cast<const unsigned*>(bytes.data());
    for (i64 block = 0; block <= grid; ++block) CHECK(counts[block] == grid);
  };
  must(set_bytes(memory.data(), 0, memory.bytes()));
  must(gpu().launcher.launch(kernel, {.x = grid}, arguments, stream));
  must(check_cuda(cudaStreamSynchronize(stream), "a grid with a barrier"));
  check_all_seen();

  must(Graph::begin(stream));
  const Status launched = gpu().launcher.launch(kernel, {.x = grid}, arguments, stream);
  const Status refused_in_capture = gpu().launcher.launch(kernel, {.x = grid + 1}, arguments, stream);
  Graph graph = must(Graph::end(stream));
  must(launched);
  CHECK_FALSE(refused_in_capture);
  must(set_bytes(memory.data(), 0, memory.bytes()));
  must(graph.replay(stream));
  check_all_seen();

  const Status refused = gpu().launcher.launch(kernel, {.x = grid + 1}, arguments, stream);
  REQUIRE_FALSE(refused);
  INFO(refused.error().message);
  CHECK(refused.error().code == ErrorCode::grid_not_resident);
  CHECK(refused.error().message.find(concat("all of its ", grid + 1, " blocks, and only ", grid)) !=
        std::string::npos);
  CHECK(refused.error().message.find("limited by shared memory") != std::string::npos);
}

TEST_CASE("a failed launch is an error that names the kernel, and the next launch works") {
  const std::string cubin = must(compile_text(gpu(), kBarrierText, {}));
  ReadyKernel kernel = must(gpu().launcher.load({.name = "wait_for_all", .cubin = cubin, .threads = 32}));
  kernel.threads = 4096;
  const auto memory = must(DeviceMemory::allocate(8, "a grid barrier"));
  must(set_bytes(memory.data(), 0, 8));
  unsigned* arrived = reinterpret_cast<unsigned*>(memory.data());
  unsigned* seen = arrived + 1;
  void* arguments[] = {&arrived, &seen};
  const Status failed = gpu().launcher.launch(kernel, {}, arguments, nullptr);
  REQUIRE_FALSE(failed);
  CHECK(failed.error().code == ErrorCode::cuda_failure);
  CHECK(failed.error().message.find("launching wait_for_all") != std::string::npos);
  kernel.threads = 32;
  CHECK(gpu().launcher.launch(kernel, {}, arguments, nullptr));
  CHECK(check_cuda(cudaDeviceSynchronize(), "the next launch"));
}

TEST_CASE("a scratch buffer that is too small is replaced with one warning, and refused under capture") {
  const i64 planned = glm_decode().total_bytes;
  const auto provided = must(DeviceMemory::allocate(planned - 1, "a caller's scratch"));
  std::vector<std::string> warnings;
  ScratchBinding binding("GLM-5.2 decode", planned,
                         [&](const std::string& text) { warnings.push_back(text); });
  Stream stream;

  must(Graph::begin(stream));
  const auto captured = binding.bind(provided.data(), provided.bytes(), stream);
  auto graph = Graph::end(stream);
  CHECK(graph);
  REQUIRE_FALSE(captured);
  CHECK(captured.error().code == ErrorCode::scratch_too_small);
  CHECK(captured.error().message.find(concat("needs ", grouped(planned), " bytes and was given ",
                                             grouped(planned - 1))) != std::string::npos);
  CHECK_FALSE(binding.owns_memory());
  CHECK(warnings.empty());

  std::byte* own = must(binding.bind(provided.data(), provided.bytes(), stream));
  CHECK(own != provided.data());
  CHECK(must(binding.bind(provided.data(), provided.bytes(), stream)) == own);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find(concat("needs ", grouped(planned), " bytes")) != std::string::npos);
  // All of it can be written.
  must(set_bytes(own, 0x11, planned));
  CHECK(must(bytes_at(own + planned - 1, 1)) == std::vector<unsigned char>{0x11});
}

TEST_CASE("a scratch buffer that is large enough is used as it is, captured or not") {
  const i64 planned = glm_decode().total_bytes;
  const auto provided = must(DeviceMemory::allocate(planned, "a caller's scratch"));
  ScratchBinding binding("GLM-5.2 decode", planned, [](const std::string& text) { FAIL(text); });
  Stream stream;
  CHECK(must(binding.bind(provided.data(), provided.bytes(), stream)) == provided.data());
  must(Graph::begin(stream));
  const auto captured = binding.bind(provided.data(), provided.bytes(), stream);
  CHECK(Graph::end(stream));
  CHECK(must(captured) == provided.data());
  CHECK_FALSE(binding.owns_memory());
}
