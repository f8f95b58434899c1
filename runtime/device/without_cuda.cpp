// What a build without a CUDA toolkit answers: it plans and compiles, and runs nothing.
#include "runtime/device/device.hpp"
#include "runtime/device/indexer_bench.hpp"
#include "runtime/device/moe_bench.hpp"
#include "runtime/device/validator.hpp"

namespace moeplan {

std::string cuda_runtime_version() { return ""; }
std::string cuda_driver_version() { return ""; }

namespace {

Error no_runtime() {
  return {ErrorCode::no_device, "", "this build of moeplan has no CUDA runtime: it runs no kernels",
          "build it where a CUDA toolkit of 12.8 or later is (CUDA_HOME)"};
}

}  // namespace

Result<std::vector<GpuProfile>> gpu_profiles() { return no_runtime(); }

Result<std::unique_ptr<Validator>> open_validator(Compiler&, i64) { return no_runtime(); }

Result<std::unique_ptr<IndexerBench>> open_indexer_bench(Compiler&, i64) { return no_runtime(); }

Result<std::unique_ptr<MoeBench>> open_moe_bench(Compiler&, i64) { return no_runtime(); }

}  // namespace moeplan
