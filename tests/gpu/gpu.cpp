#include "tests/gpu/gpu.hpp"

#include <thread>

#include "tests/support.hpp"

namespace moeplan::test {

Result<std::unique_ptr<Gpu>> Gpu::open() {
  auto launcher = Launcher::create();
  if (!launcher) return launcher.error();
  const RuntimeEnvironment environment = read_runtime_environment();
  auto nvrtc = Nvrtc::load(environment);
  if (!nvrtc) return nvrtc.error();
  return std::unique_ptr<Gpu>(
      new Gpu(std::move(*launcher), Compiler(std::move(*nvrtc), environment, std::nullopt), environment));
}

Gpu::Gpu(Launcher launcher_in, Compiler compiler_in, RuntimeEnvironment environment_in)
    : launcher(std::move(launcher_in)),
      compiler(std::move(compiler_in)),
      environment(std::move(environment_in)) {}

LaunchResolver Gpu::resolver() {
  LaunchBackend backend = launcher.backend(compiler, std::thread::hardware_concurrency());
  backend.compile = [this, compile = backend.compile](std::span<const KernelVariant> variants) {
    auto kernels = compile(variants);
    for (std::size_t i = 0; kernels && i < variants.size(); ++i)
      compiled.emplace_back(variants[i], (*kernels)[i]);
    return kernels;
  };
  return LaunchResolver(std::move(backend));
}

std::vector<KernelVariant> catalog_variants(const Architecture& architecture) {
  std::vector<KernelVariant> variants;
  for (const KernelRow& row : kernel_catalog()) {
    for (const KernelVariant& variant : row.variants()) {
      if (shared_bytes_of(variant) <= architecture.shared_bytes_per_block) variants.push_back(variant);
    }
  }
  return variants;
}

Result<std::string> compile_text(const Gpu& gpu, std::string_view text,
                                 std::span<const std::string> options) {
  const KernelSource source{.main = {"test.cu", std::string(text)}};
  std::vector<std::string> all = {concat("--gpu-architecture=", gpu.launcher.architecture().name),
                                  "--std=c++20"};
  all.insert(all.end(), options.begin(), options.end());
  NvrtcOutput output = gpu.compiler.nvrtc().compile(source, all);
  if (!output.is_compiled) return Error{ErrorCode::kernel_compile, "", output.log, ""};
  return std::move(output.cubin);
}

Stream::Stream() {
  const Status created = check_cuda(cudaStreamCreate(&stream_), "cudaStreamCreate");
  MOEPLAN_CHECK(created, "no stream");
}

Stream::~Stream() { (void)cudaStreamDestroy(stream_); }

Status Graph::begin(cudaStream_t stream) {
  return check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
}

Result<Graph> Graph::end(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  if (const Status ended = check_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture"); !ended)
    return ended.error();
  cudaGraphExec_t executable = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&executable, graph, 0);
  (void)cudaGraphDestroy(graph);
  if (const Status made = check_cuda(error, "cudaGraphInstantiate"); !made) return made.error();
  return Graph(executable);
}

Graph::~Graph() {
  if (executable_) (void)cudaGraphExecDestroy(executable_);
}

Status Graph::queue(cudaStream_t stream) const {
  return check_cuda(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
}

Status Graph::replay(cudaStream_t stream) const {
  if (const Status queued = queue(stream); !queued) return queued;
  return check_cuda(cudaStreamSynchronize(stream), "replaying a graph");
}

Result<std::vector<unsigned char>> bytes_at(const std::byte* device, i64 count) {
  std::vector<unsigned char> bytes(static_cast<std::size_t>(count));
  const cudaError_t error = cudaMemcpy(bytes.data(), device, bytes.size(), cudaMemcpyDeviceToHost);
  if (const Status copied = check_cuda(error, "copying bytes of the device"); !copied) return copied.error();
  return bytes;
}

Status set_bytes(std::byte* device, int value, i64 count) {
  if (const Status set = check_cuda(cudaMemset(device, value, static_cast<std::size_t>(count)),
                                    "setting bytes of the device");
      !set)
    return set;
  return check_cuda(cudaDeviceSynchronize(), "setting bytes of the device");
}

Status flip_byte(std::byte* device) {
  const auto there = bytes_at(device, 1);
  if (!there) return there.error();
  return set_bytes(device, ~there->front() & 0xff, 1);
}

Placement placed(const MoeLayout& layout, GuardMode mode) {
  const auto& tensors = layout.arena.tensors;
  return place_guarded(std::span(tensors.begin(), tensors.size()), layout.total_bytes, mode);
}

namespace {

MoeLayout glm(i64 tokens, i64 block_size) {
  MoeRequest request = trellis_request("sparkinfer-de04125", 256, 6144, 512, 8, tokens, 188);
  request.capacity.block_size_m = block_size;
  return *plan_moe(request);
}

}  // namespace

MoeLayout glm_decode() { return glm(64, 8); }
MoeLayout glm_prefill_3072() { return glm(3072, 64); }

}  // namespace moeplan::test
