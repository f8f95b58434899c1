// What the tests and records on a GPU share: the GPU with a compiler for it, streams, and bytes of its
// memory.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <utility>
#include <vector>

#include "planner/moe/plan_moe.hpp"
#include "runtime/arena/guards.hpp"
#include "runtime/device/cuda_status.hpp"
#include "runtime/device/device_arena.hpp"
#include "runtime/device/launcher.hpp"
#include "runtime/environment.hpp"
#include "runtime/jit/compiler.hpp"

namespace moeplan::test {

// The first GPU of this machine, and NVRTC without a cache: what a test runs was compiled for it.
class Gpu {
 public:
  static Result<std::unique_ptr<Gpu>> open();

  Launcher launcher;
  Compiler compiler;
  RuntimeEnvironment environment;
  // Everything that resolvers of this GPU compiled, in order.
  std::vector<std::pair<KernelVariant, CompiledKernel>> compiled;

  // A new one each time, with nothing resolved. Lives shorter than the GPU.
  LaunchResolver resolver();

 private:
  Gpu(Launcher launcher_in, Compiler compiler_in, RuntimeEnvironment environment_in);
};

// Every variant of the catalog whose shared memory this GPU has.
std::vector<KernelVariant> catalog_variants(const Architecture& architecture);

// A kernel of a text that is not in the catalog.
Result<std::string> compile_text(const Gpu& gpu, std::string_view text, std::span<const std::string> options);

// A stream of its own, which the legacy stream waits for.
class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  operator cudaStream_t() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// Work of a stream as a graph. Captures in the mode that forbids most: what could not be captured fails.
class Graph {
 public:
  // Between these the caller works into the stream.
  static Status begin(cudaStream_t stream);
  static Result<Graph> end(cudaStream_t stream);

  Graph(Graph&& other) noexcept : executable_(std::exchange(other.executable_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(executable_, other.executable_);
    return *this;
  }
  ~Graph();
  Status replay(cudaStream_t stream) const;
  // Without waiting for it.
  Status queue(cudaStream_t stream) const;

 private:
  explicit Graph(cudaGraphExec_t executable) : executable_(executable) {}
  cudaGraphExec_t executable_ = nullptr;
};

// These wait for the device.
Result<std::vector<unsigned char>> bytes_at(const std::byte* device, i64 count);
Status set_bytes(std::byte* device, int value, i64 count);
// Inverts one byte, so that it differs from whatever was there.
Status flip_byte(std::byte* device);

// Of a plan whose errors would be the test's own.
Placement placed(const MoeLayout& layout, GuardMode mode);

// The 64-token decode plan of GLM-5.2 at block 8, and its 3,072-token prefill plan at block 64: 256 experts,
// hidden 6144, 512 a rank, top-k 8, Trellis weights, planned for 188 multiprocessors.
MoeLayout glm_decode();
MoeLayout glm_prefill_3072();

}  // namespace moeplan::test
