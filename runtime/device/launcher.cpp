#include "runtime/device/launcher.hpp"

#include <vector>

#include "planner/core/check.hpp"
#include "runtime/device/cuda_status.hpp"
#include "runtime/jit/residency.hpp"

namespace moeplan {
namespace {

struct Unload {
  using pointer = cudaLibrary_t;
  void operator()(cudaLibrary_t library) const { (void)cudaLibraryUnload(library); }
};
using Library = std::unique_ptr<void, Unload>;

Result<Library> load_library(std::string_view name, std::string_view cubin) {
  cudaLibrary_t library = nullptr;
  const cudaError_t error =
      cudaLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (const Status loaded = check_cuda(error, concat("cudaLibraryLoadData of ", name)); !loaded)
    return loaded.error();
  return Library(library);
}

unsigned dimension(i64 blocks) {
  MOEPLAN_CHECK(blocks > 0 && blocks <= 0x7fffffff, "a grid that no launch takes");
  return static_cast<unsigned>(blocks);
}

}  // namespace

struct Launcher::State {
  GpuProfile gpu;
  const Architecture* architecture = nullptr;
  std::vector<Library> libraries;
};

Result<Launcher> Launcher::create(int device) {
  const auto profiles = gpu_profiles();
  if (!profiles) return profiles.error();
  const auto count = static_cast<int>(profiles->size());
  if (device < 0 || device >= count)
    return Error{ErrorCode::no_device, "", concat("there is no GPU ", device, ": this machine has ", count),
                 concat("name one from 0 to ", count - 1)};
  if (const Status set = check_cuda(cudaSetDevice(device), "cudaSetDevice"); !set)
    return Error{ErrorCode::no_device, "", set.error().message, ""};

  auto state = std::make_shared<State>();
  state->gpu = (*profiles)[static_cast<std::size_t>(device)];
  state->architecture = architecture_of(state->gpu.compute_capability);
  if (!state->architecture) {
    std::vector<std::string_view> known;
    for (const Architecture& architecture : architectures()) known.push_back(architecture.compute_capability);
    return Error{ErrorCode::unsupported_architecture, "",
                 concat("kernels are not compiled for ", state->gpu.name, " of compute capability ",
                        state->gpu.compute_capability),
                 concat("supported are ", join(known, ", ", " and "))};
  }
  return Launcher(std::move(state));
}

const GpuProfile& Launcher::gpu() const { return state_->gpu; }
const Architecture& Launcher::architecture() const { return *state_->architecture; }

Result<ReadyKernel> Launcher::load(const KernelVariant& variant, const CompiledKernel& compiled) {
  const KernelRow& row = row_of(variant.kernel);
  return load({.name = row.name,
               .cubin = compiled.cubin,
               .threads = threads_of(variant),
               .shared_bytes = shared_bytes_of(variant),
               .has_grid_barrier = row.has_grid_barrier,
               .overlaps_last = row.overlaps_last && architecture().overlaps_launches,
               .resources = compiled.resources});
}

Result<ReadyKernel> Launcher::load(const KernelImage& image) {
  auto library = load_library(image.name, image.cubin);
  if (!library) return library.error();
  const std::string name(image.name);
  cudaKernel_t handle = nullptr;
  if (const Status found = check_cuda(cudaLibraryGetKernel(&handle, library->get(), name.c_str()),
                                      concat("cudaLibraryGetKernel of ", name));
      !found)
    return found.error();
  const void* function = handle;

  // Asking for attributes also loads the code: a kernel that loads lazily at its first launch could do so
  // under capture, where it may not.
  cudaFuncAttributes attributes{};
  if (const Status known =
          check_cuda(cudaFuncGetAttributes(&attributes, function), concat("cudaFuncGetAttributes of ", name));
      !known)
    return known.error();
  if (image.shared_bytes > attributes.maxDynamicSharedSizeBytes) {
    const cudaError_t error = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                   static_cast<int>(image.shared_bytes));
    if (const Status set = check_cuda(
            error, concat("asking for ", grouped(image.shared_bytes), " bytes of shared memory for ", name));
        !set)
      return set.error();
  }
  int blocks = 0;
  if (const Status known = check_cuda(
          cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, static_cast<int>(image.threads),
                                                        static_cast<std::size_t>(image.shared_bytes)),
          concat("cudaOccupancyMaxActiveBlocksPerMultiprocessor of ", name));
      !known)
    return known.error();

  state_->libraries.push_back(std::move(*library));
  return ReadyKernel{
      .name = image.name,
      .function = function,
      .threads = image.threads,
      .shared_bytes = image.shared_bytes,
      .has_grid_barrier = image.has_grid_barrier,
      .overlaps_last = image.overlaps_last,
      .resources = image.resources,
      .resident_blocks_per_sm = blocks,
      .residency_limit = residency_limit(architecture(), attributes.numRegs, image.threads,
                                         static_cast<i64>(attributes.sharedSizeBytes) + image.shared_bytes)};
}

bool Launcher::is_capturing(void* stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &status);
  // The legacy stream answers with an error while another one is captured in a mode that forbids its use.
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    return true;
  }
  return status != cudaStreamCaptureStatusNone;
}

LaunchBackend Launcher::backend(Compiler& compiler, i64 threads, Progress progress) const {
  using Compiled = Result<std::vector<CompiledKernel>>;
  const auto compile = [&compiler, threads, progress = std::move(progress),
                        launcher = *this](std::span<const KernelVariant> variants) -> Compiled {
    auto compiled = compiler.compile(variants, launcher.architecture(), threads, progress);
    if (!compiled) return compiled.error();
    std::vector<CompiledKernel> kernels;
    for (Result<CompiledVariant>& variant : *compiled) {
      if (!variant) return variant.error();
      kernels.push_back(std::move(variant->kernel));
    }
    return kernels;
  };
  const auto load = [launcher = *this](const KernelVariant& variant, const CompiledKernel& kernel) mutable {
    return launcher.load(variant, kernel);
  };
  return {.compile = compile, .load = load, .is_capturing = is_capturing};
}

Grid Launcher::resident_grid(const ReadyKernel& kernel, i64 blocks) const {
  return {.x = max_of(1, min_of(blocks, kernel.resident_blocks_per_sm * state_->gpu.sm_count))};
}

Status Launcher::launch(const ReadyKernel& kernel, Grid grid, void** arguments, void* stream) const {
  if (kernel.has_grid_barrier) {
    const Residency residency{kernel.resident_blocks_per_sm, state_->gpu.sm_count, kernel.residency_limit};
    if (const Status resident = check_resident(kernel.name, grid.x * grid.y * grid.z, residency); !resident)
      return resident.error();
  }
  MOEPLAN_CHECK(grid.cluster >= 1 && grid.x % grid.cluster == 0, "a grid of part of a cluster");
  cudaLaunchAttribute attributes[3]{};
  unsigned count = 0;
  if (kernel.has_grid_barrier) {
    // Cooperative: the driver starts all blocks together or none.
    attributes[count].id = cudaLaunchAttributeCooperative;
    attributes[count++].val.cooperative = 1;
  }
  if (kernel.overlaps_last) {
    attributes[count].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[count++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (grid.cluster > 1 && architecture().has_clusters) {
    attributes[count].id = cudaLaunchAttributeClusterDimension;
    attributes[count++].val.clusterDim = {static_cast<unsigned>(grid.cluster), 1, 1};
  }

  cudaLaunchConfig_t config{};
  config.gridDim = dim3(dimension(grid.x), dimension(grid.y), dimension(grid.z));
  config.blockDim = dim3(static_cast<unsigned>(kernel.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(kernel.shared_bytes);
  config.stream = static_cast<cudaStream_t>(stream);
  config.attrs = attributes;
  config.numAttrs = count;
  const cudaError_t error = cudaLaunchKernelExC(&config, kernel.function, arguments);
  return error == cudaSuccess ? Ok{} : check_cuda(error, concat("launching ", kernel.name));
}

}  // namespace moeplan
