// ./dev bench: speed and size against their bars. Prints one row a measure; exit 1 when a bar is missed.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "cli/io/json_document.hpp"
#include "cli/io/request_fields.hpp"
#include "planner/indexer/fold.hpp"
#include "planner/indexer/plan_indexer.hpp"
#include "planner/moe/plan_moe.hpp"
#include "planner/moe/soundness.hpp"
#include "runtime/jit/compiler.hpp"
#include "runtime/jit/launch_resolver.hpp"
#include "tests/temporary_folder.hpp"

namespace {

using namespace moeplan;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

int missed = 0;

void report(const char* what, double value, const char* unit, double bar, bool at_least) {
  const bool met = at_least ? value >= bar : value <= bar;
  missed += met ? 0 : 1;
  std::printf("%-44s %14.2f %-12s bar %s %.0f  %s\n", what, value, unit, at_least ? ">=" : "<=", bar,
              met ? "ok" : "MISSED");
}

std::vector<std::string> recorded_requests() {
  std::vector<std::string> requests;
  for (const char* name : {"moe_w4a16", "moe_micro_dynamic"}) {
    std::ifstream file(std::string(MOEPLAN_SOURCE_DIR) + "/tests/golden/" + name + ".jsonl");
    JsonDocument document;
    for (std::string line; std::getline(file, line);) {
      if (!document.parse(line, name)) continue;
      requests.emplace_back(document.raw(*document.find(document.root(), "request")));
    }
  }
  return requests;
}

struct Run {
  double seconds;
  double user_seconds;
  long peak_kib;
};

// Runs the binary with its output thrown away.
Run run(std::vector<std::string> arguments, const std::string& input) {
  const auto start = Clock::now();
  const pid_t child = fork();
  if (child == 0) {
    const int in = open(input.c_str(), O_RDONLY), out = open("/dev/null", O_WRONLY);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    std::vector<char*> argv{const_cast<char*>(MOEPLAN_BINARY)};
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    execv(MOEPLAN_BINARY, argv.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  wait4(child, &status, 0, &usage);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    std::fprintf(stderr, "the benchmarked command failed\n");
    std::exit(1);
  }
  return {seconds_since(start),
          static_cast<double>(usage.ru_utime.tv_sec) + static_cast<double>(usage.ru_utime.tv_usec) * 1e-6,
          usage.ru_maxrss};
}

void bench_plans(const std::vector<std::string>& requests) {
  std::vector<MoeRequest> plans;
  JsonDocument document;
  for (const std::string& text : requests) {
    std::vector<Problem> problems;
    if (!document.parse(text, "bench")) continue;
    const PlanRequest request =
        read_request({.document = document, .problems = problems}, document.root(), {});
    if (problems.empty() && plan_moe(request.moe)) plans.push_back(request.moe);
  }
  std::vector<double> rates;
  i64 checksum = 0;
  for (int repeat = 0; repeat < 11; ++repeat) {
    const auto start = Clock::now();
    constexpr int kRounds = 300;
    for (int round = 0; round < kRounds; ++round) {
      for (const MoeRequest& request : plans) checksum += plan_moe(request)->total_bytes;
    }
    rates.push_back(kRounds * static_cast<double>(plans.size()) / seconds_since(start));
  }
  std::printf("(checksum %lld over %zu plans)\n", checksum, plans.size());
  report("library call", median(rates), "plans/s", 2'000'000, true);
}

void bench_indexer() {
  std::vector<IndexerRequest> plans;
  std::ifstream file(std::string(MOEPLAN_SOURCE_DIR) + "/tests/golden/indexer.jsonl");
  JsonDocument document;
  for (std::string line; std::getline(file, line);) {
    if (!document.parse(line, "bench")) continue;
    std::vector<Problem> problems;
    const PlanRequest request = read_request({.document = document, .problems = problems},
                                             *document.find(document.root(), "request"), {});
    if (problems.empty() && request.kind == RequestKind::indexer_paged && plan_indexer_paged(request.indexer))
      plans.push_back(request.indexer);
  }
  std::vector<double> rates;
  i64 checksum = 0;
  for (int repeat = 0; repeat < 11; ++repeat) {
    const auto start = Clock::now();
    constexpr int kRounds = 3000;
    for (int round = 0; round < kRounds; ++round) {
      for (const IndexerRequest& request : plans) checksum += plan_indexer_paged(request)->total_bytes;
    }
    rates.push_back(kRounds * static_cast<double>(plans.size()) / seconds_since(start));
  }
  std::printf("(checksum %lld over %zu indexer plans)\n", checksum, plans.size());
  report("indexer library call", median(rates), "plans/s", 500'000, true);

  std::vector<double> milliseconds;
  for (int repeat = 0; repeat < 101; ++repeat) {
    const auto start = Clock::now();
    const FoldPeak peak = worst_fold_slab({.max_rows = 48,
                                           .top_k = 2048,
                                           .page_size = 64,
                                           .max_pages = (i64{1} << 20) / 64,
                                           .chunk_pages = 512,
                                           .output_physical_slots = false},
                                          {.mode = FoldMode::automatic, .budget_bytes = i64{256} << 20});
    checksum += peak.bytes;
    milliseconds.push_back(1000 * seconds_since(start));
  }
  report("worst fold slab, 1M tokens of context", median(milliseconds), "ms", 5, false);
}

void bench_batch(const std::vector<std::string>& requests) {
  const auto write_lines = [&](const std::string& path, std::size_t lines) {
    std::ofstream file(path);
    for (std::size_t i = 0; i < lines; ++i) file << requests[i % requests.size()] << '\n';
  };
  const std::string few = std::string(P_tmpdir) + "/moeplan-bench-few.jsonl";
  const std::string many = std::string(P_tmpdir) + "/moeplan-bench-many.jsonl";
  write_lines(few, 1'000);
  write_lines(many, 200'000);
  std::vector<double> rates;
  Run last{};
  for (int repeat = 0; repeat < 5; ++repeat) {
    last = run({"batch"}, many);
    rates.push_back(200'000 / last.seconds);
  }
  report("batch over the recorded mix, wall", median(rates), "requests/s", 100'000, true);
  const Run small = run({"batch"}, few);
  report("batch peak memory, 1,000 lines", static_cast<double>(small.peak_kib) / 1024, "MiB", 32, false);
  report("batch peak memory, 200,000 lines", static_cast<double>(last.peak_kib) / 1024, "MiB", 32, false);
  unlink(few.c_str());
  unlink(many.c_str());
}

void bench_audit() {
  MoeRequest request;
  request.contract = find_contract("sparkinfer-c2f135c");
  request.device.sm_count = 188;
  request.weights.source_format = SourceFormat::compressed_tensors;
  request.weights.io_dtype = DType::bfloat16;
  request.weights.experts = 256;
  request.weights.hidden_size = 6144;
  request.weights.intermediate_size = 512;
  request.capacity.max_tokens = 1'000'000;
  request.capacity.top_k = 8;
  const auto layout = plan_moe(request);
  std::vector<double> milliseconds;
  for (int repeat = 0; repeat < 11; ++repeat) {
    const auto start = Clock::now();
    const MoeAudit audit = audit_moe(request, *layout, ExpertMap::absent, AuditSearch::exhaustive);
    if (audit.counter_example()) std::exit(1);
    milliseconds.push_back(1000 * seconds_since(start));
  }
  report("audit of 1,000,000 live token counts", median(milliseconds), "ms", 1000, false);
}

// Commands on a shipped config, from the start of the process to its end.
void bench_commands() {
  const std::tuple<const char*, const char*, double> commands[] = {{"size", "glm52", 10},
                                                                   {"audit", "glm52", 50},
                                                                   {"launches", "glm52", 50},
                                                                   {"audit", "glm52-gate8192", 50},
                                                                   {"launches", "glm52-gate8192", 50}};
  for (const auto& [command, config, bar] : commands) {
    const std::string path = std::string(MOEPLAN_SOURCE_DIR "/configs/") + config + ".json";
    std::vector<double> milliseconds;
    for (int repeat = 0; repeat < 101; ++repeat)
      milliseconds.push_back(1000 * run({command, "--config", path}, "/dev/null").seconds);
    report((std::string(command) + " of " + config + ", cold start").c_str(), median(milliseconds), "ms", bar,
           false);
  }
}

// A million points, on the threads that the machine has.
void bench_sweep() {
  std::vector<double> seconds;
  Run last{};
  for (int repeat = 0; repeat < 3; ++repeat) {
    last = run({"sweep", "-c", MOEPLAN_SOURCE_DIR "/configs/glm52.json", "--axis", "capacity=1..1000:+1",
                "--axis", "sms=1..1000:+1", "--columns", "bytes,mib,launches", "--format", "csv"},
               "/dev/null");
    seconds.push_back(last.seconds);
  }
  report("sweep of 1,000,000 points to CSV, wall", median(seconds), "s", 5, false);
  report("sweep peak memory, 1,000,000 points", static_cast<double>(last.peak_kib) / 1024, "MiB", 64, false);
  const Run pointers = run({"sweep", "-c", MOEPLAN_SOURCE_DIR "/configs/glm52.json", "--axis",
                            "/deployment/max_num_batched_tokens=1..50000:+1", "--columns",
                            "bytes,mib,launches", "--format", "csv"},
                           "/dev/null");
  report("sweep by JSON pointer, wall", 50'000 / pointers.seconds, "points/s", 10'000, true);
}

// The look from a launch's arguments to its kernel, over the kernels of the GLM-5.2 plans.
void bench_launch_memo() {
  std::vector<KernelVariant> variants;
  for (const KernelRow& row : kernel_catalog()) {
    for (const KernelVariant& variant : row.variants()) variants.push_back(variant);
  }
  const auto ready = [](const KernelVariant& variant, const CompiledKernel&) -> Result<ReadyKernel> {
    return ReadyKernel{.threads = row_of(variant.kernel).threads};
  };
  LaunchResolver resolver(
      {.compile = [](std::span<const KernelVariant> wanted) -> Result<std::vector<CompiledKernel>> {
         return std::vector<CompiledKernel>(wanted.size());
       },
       .load = ready,
       .is_capturing = [](void*) { return false; }});
  if (!resolver.resolve(variants)) std::exit(1);
  resolver.freeze();
  constexpr i64 kLaunches = 2'000'000;
  std::vector<double> nanoseconds;
  i64 checksum = 0;
  for (int repeat = 0; repeat < 11; ++repeat) {
    const auto start = Clock::now();
    for (i64 m = 0; m < kLaunches; ++m) {
      const KernelVariant& variant = variants[static_cast<std::size_t>(m * 7) % variants.size()];
      const auto kernel = resolver.find(variant, {.live_tokens = m, .block = 8});
      checksum += (*kernel)->threads;
    }
    nanoseconds.push_back(1e9 * seconds_since(start) / static_cast<double>(kLaunches));
  }
  std::printf("(checksum %lld over %zu kernels)\n", checksum, variants.size());
  report("resolved launch, from arguments to kernel", median(nanoseconds), "ns", 100, false);
}

// moeplan compile of the first deployment: all anew, one kernel, and all from the cache.
void bench_compile() {
  const RuntimeEnvironment environment = read_runtime_environment();
  auto nvrtc = Nvrtc::load(environment);
  if (!nvrtc) {
    std::printf("compiling: not run, no NVRTC here\n");
    return;
  }
  Compiler compiler(std::move(*nvrtc), {}, std::nullopt);
  double slowest = 0;
  for (const KernelRow& row : kernel_catalog()) {
    const KernelVariant variant = row.variants().back();
    const auto start = Clock::now();
    const auto results = compiler.compile({&variant, 1}, *find_architecture("sm_120"), 1);
    if (!results || !results->front()) std::exit(1);
    slowest = std::max(slowest, seconds_since(start));
  }
  report("cold compile of one kernel, the slowest", slowest, "s", 3, false);

  const test::TemporaryFolder folder;
  setenv("MOEPLAN_CACHE_DIR", folder.path().c_str(), 1);
  const std::vector<std::string> arguments = {"compile", "-c", MOEPLAN_SOURCE_DIR "/configs/glm52.json",
                                              "--arch", "sm_120"};
  report("compile of glm52 for sm_120, cold", run(arguments, "/dev/null").seconds, "s", 30, false);
  std::vector<double> milliseconds;
  for (int repeat = 0; repeat < 21; ++repeat)
    milliseconds.push_back(1000 * run(arguments, "/dev/null").seconds);
  report("compile of glm52 for sm_120, from the cache", median(milliseconds), "ms", 50, false);
  unsetenv("MOEPLAN_CACHE_DIR");
}

}  // namespace

int main() {
  const auto requests = recorded_requests();
  bench_plans(requests);
  bench_indexer();
  bench_batch(requests);
  bench_audit();
  bench_commands();
  bench_sweep();
  bench_launch_memo();
  bench_compile();
  return missed == 0 ? 0 : 1;
}
