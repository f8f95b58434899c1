// A stream of its own, work of it as a graph, and how long it takes.
#pragma once

#include <cmath>
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

  // Without waiting for it.
  Status queue(cudaStream_t stream) const {
    return check_cuda(cudaGraphLaunch(executable_, stream), "cudaGraphLaunch");
  }
  // Runs it once, and waits for it.
  Status replay(cudaStream_t stream) const {
    if (Status queued = queue(stream); !queued) return queued;
    return check_cuda(cudaStreamSynchronize(stream), "replaying a graph");
  }

 private:
  explicit CapturedWork(cudaGraphExec_t executable) : executable_(executable) {}
  cudaGraphExec_t executable_;
};

// Nanoseconds of a stream's work between two calls, by events.
class StreamTimer {
 public:
  static Result<StreamTimer> create(cudaStream_t stream) {
    StreamTimer timer(stream);
    for (cudaEvent_t* event : {&timer.start_, &timer.stop_}) {
      if (const Status created = check_cuda(cudaEventCreate(event), "cudaEventCreate"); !created)
        return created.error();
    }
    return timer;
  }
  StreamTimer(StreamTimer&& other) noexcept
      : stream_(other.stream_),
        start_(std::exchange(other.start_, nullptr)),
        stop_(std::exchange(other.stop_, nullptr)) {}
  StreamTimer& operator=(StreamTimer&&) = delete;
  ~StreamTimer() {
    if (start_) (void)cudaEventDestroy(start_);
    if (stop_) (void)cudaEventDestroy(stop_);
  }

  Status start() { return check_cuda(cudaEventRecord(start_, stream_), "cudaEventRecord"); }
  // Waits for the work.
  Result<i64> stop() {
    if (const Status recorded = check_cuda(cudaEventRecord(stop_, stream_), "cudaEventRecord"); !recorded)
      return recorded.error();
    if (const Status waited = check_cuda(cudaEventSynchronize(stop_), "cudaEventSynchronize"); !waited)
      return waited.error();
    float milliseconds = 0;
    if (const Status known =
            check_cuda(cudaEventElapsedTime(&milliseconds, start_, stop_), "cudaEventElapsedTime");
        !known)
      return known.error();
    return std::llround(1e6 * static_cast<double>(milliseconds));
  }

 private:
  explicit StreamTimer(cudaStream_t stream) : stream_(stream) {}
  cudaStream_t stream_;
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
};

}  // namespace moeplan
