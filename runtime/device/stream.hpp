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

// Work of a stream as a graph.
class CapturedWork {
 public:
  // What `work` launches into the stream, captured in the mode that forbids most: an allocation fails.
  template <class Work>
  static Result<CapturedWork> capture(cudaStream_t stream, const Work& work) {
    if (const Status begun =
            check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
        !begun)
      return begun.error();
    const Status worked = work();
    cudaGraph_t graph = nullptr;
    const Status ended = check_cuda(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    if (!worked || !ended) {
      if (graph) (void)cudaGraphDestroy(graph);
      return worked ? ended.error() : worked.error();
    }
    cudaGraphExec_t executable = nullptr;
    const cudaError_t error = cudaGraphInstantiate(&executable, graph, 0);
    (void)cudaGraphDestroy(graph);
    if (const Status made = check_cuda(error, "cudaGraphInstantiate"); !made) return made.error();
    return CapturedWork(executable);
  }
  CapturedWork(CapturedWork&& other) noexcept : executable_(std::exchange(other.executable_, nullptr)) {}
  CapturedWork& operator=(CapturedWork&&) = delete;
  ~CapturedWork() {
    if (executable_) (void)cudaGraphExecDestroy(executable_);
  }

  // Runs it once, and waits for it.
  Status replay(cudaStream_t stream) const {
    if (const Status ran = check_cuda(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch"); !ran)
      return ran;
    return check_cuda(cudaStreamSynchronize(stream), "replaying a graph");
  }

 private:
  explicit CapturedWork(cudaGraphExec_t executable) : executable_(executable) {}
  cudaGraphExec_t executable_;
};

}  // namespace moeplan
