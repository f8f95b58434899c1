// A stream of its own, and work of it as a graph.
#pragma once

#include <utility>

#include "runtime/device/cuda_status.hpp"

namespace moeplan {

class Stream {
 public:
  static Result<Stream> create() {
    cudaStream_t stream = nullptr;
    if (const Status created = check_cuda(cudaStreamCreate(&stream), "cudaStreamCreate"); !created)
      return created.error();
    return Stream(stream);
  }
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&&) = delete;
  ~Stream() {
    if (stream_) (void)cudaStreamDestroy(stream_);
  }
  operator cudaStream_t() const { return stream_; }

 private:
  explicit Stream(cudaStream_t stream) : stream_(stream) {}
  cudaStream_t stream_;
};

// Captures what `work` launches into the stream, in the mode that forbids most, and runs it once as a graph.
template <class Work>
Status run_as_graph(cudaStream_t stream, const Work& work) {
  if (const Status begun =
          check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
      !begun)
    return begun;
  const Status worked = work();
  cudaGraph_t graph = nullptr;
  const Status ended = check_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  if (!worked || !ended) {
    if (graph) (void)cudaGraphDestroy(graph);
    return worked ? ended : worked;
  }
  cudaGraphExec_t executable = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&executable, graph, 0);
  (void)cudaGraphDestroy(graph);
  if (const Status made = check_cuda(error, "cudaGraphInstantiate"); !made) return made;
  Status ran = check_cuda(cudaGraphLaunch(executable, stream), "cudaGraphLaunch");
  if (ran) ran = check_cuda(cudaStreamSynchronize(stream), "replaying a graph");
  (void)cudaGraphExecDestroy(executable);
  return ran;
}

}  // namespace moeplan
