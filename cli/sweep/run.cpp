#include "cli/sweep/run.hpp"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <thread>

#include "cli/progress.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// Small enough that an interrupted run ends soon even where every point reads the config again.
constexpr i64 kBlockPoints = 1024;
// Blocks of a round, a thread: enough that one which has to wait for its core holds up little.
constexpr std::size_t kBlocksEach = 8;

volatile std::sig_atomic_t caught_signal = 0;
extern "C" void note_signal(int signal) { caught_signal = signal; }

// Catches SIGINT and SIGTERM once each while it lives.
class SignalGuard {
 public:
  SignalGuard() {
    caught_signal = 0;
    struct sigaction action {};
    action.sa_handler = note_signal;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &interrupt_);
    sigaction(SIGTERM, &action, &terminate_);
  }
  ~SignalGuard() {
    sigaction(SIGINT, &interrupt_, nullptr);
    sigaction(SIGTERM, &terminate_, nullptr);
  }
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

 private:
  struct sigaction interrupt_ {
  }, terminate_{};
};

void plan_block(PointPlanner& planner, i64 begin, i64 end, std::span<const FormatPoint> formats,
                SweepBlock& block) {
  block.points.clear();
  block.texts.resize(formats.size());
  for (std::string& text : block.texts) text.clear();
  for (i64 index = begin; index < end; ++index) {
    block.points.push_back(planner.plan(index));
    for (std::size_t i = 0; i < formats.size(); ++i) formats[i](block.points.back(), block.texts[i]);
  }
}

}  // namespace

RunEnd run_sweep_points(const Sweep& sweep, const RunOptions& options, std::span<const FormatPoint> formats,
                        const TakeBlock& take) {
  const SignalGuard guard;
  ProgressLine progress(sweep.points, "points", options.shows_progress);
  const i64 wanted = options.threads > 0 ? options.threads : i64{std::thread::hardware_concurrency()};
  const i64 blocks = ceil_div(sweep.points, kBlockPoints);
  const auto threads = static_cast<std::size_t>(max_of(1, min_of(wanted, blocks)));
  std::vector<PointPlanner> planners;
  for (std::size_t i = 0; i < threads; ++i) planners.emplace_back(sweep);
  std::vector<SweepBlock> round(threads * kBlocksEach);
  RunEnd end;
  while (end.done < sweep.points) {
    const auto begin_of = [&](std::size_t i) {
      return min_of(end.done + static_cast<i64>(i) * kBlockPoints, sweep.points);
    };
    std::atomic<std::size_t> next_block = 0;
    const auto work = [&](PointPlanner& planner) {
      for (std::size_t i; (i = next_block.fetch_add(1)) < round.size();)
        plan_block(planner, begin_of(i), begin_of(i + 1), formats, round[i]);
    };
    {
      std::vector<std::jthread> helpers;
      for (std::size_t i = 1; i < threads; ++i) helpers.emplace_back([&, i] { work(planners[i]); });
      work(planners[0]);
    }
    const i64 next = begin_of(round.size());
    for (const SweepBlock& block : round) {
      if (block.points.empty()) continue;
      if (!take(block)) return end;
      end.done += static_cast<i64>(block.points.size());
    }
    MOEPLAN_CHECK(end.done == next, "a round of a sweep lost points");
    progress.show(end.done);
    if (caught_signal != 0) {
      end.signal = caught_signal;
      return end;
    }
  }
  return end;
}

}  // namespace moeplan
