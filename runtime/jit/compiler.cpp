#include "runtime/jit/compiler.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "planner/core/text.hpp"
#include "runtime/jit/ptxas_log.hpp"

namespace moeplan {
namespace {

// Raised when what an entry of the cache holds changes its form.
constexpr std::string_view kKeyVersion = "moeplan.kernel/1";

// Bytes of a compiler's log that an error quotes.
constexpr std::size_t kMostLog = 16 * 1024;

// The options of a variant. Each assembler option stands by itself: NVRTC takes one a flag.
std::vector<std::string> options_of(const KernelVariant& variant, const Architecture& architecture) {
  const KernelRow& row = row_of(variant.kernel);
  std::vector<std::string> options = {concat("--gpu-architecture=", architecture.name),
                                      "--std=c++20",
                                      "--device-as-default-execution-space",
                                      "--ptxas-options=--verbose",
                                      concat("-DTHREADS=", threads_of(variant)),
                                      concat("-DSHARED_BYTES=", shared_bytes_of(variant))};
  for (std::size_t i = 0; i < row.defines.size(); ++i)
    options.push_back(concat("-D", row.defines[i], "=", variant.values[i]));
  return options;
}

// Calls `work(index)` for every index below `count`, on at most `threads` threads; on fewer where the system
// gives no more. What a call throws is thrown here, when all threads are done.
template <class Work>
void in_parallel(std::size_t count, i64 threads, const Work& work) {
  std::atomic<std::size_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto run = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      next = count;
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
    }
  };
  std::vector<std::thread> helpers;
  const std::size_t wanted = std::min(count, static_cast<std::size_t>(max_of(threads, 1)));
  helpers.reserve(wanted);
  try {
    while (helpers.size() + 1 < wanted) helpers.emplace_back(run);
  } catch (const std::system_error&) {
    // No further thread is to be had: those there are do the work.
  }
  run();
  for (std::thread& helper : helpers) helper.join();
  if (failure) std::rethrow_exception(failure);
}

// Whether the figures can be a kernel's.
bool is_plausible(const KernelResources& r) {
  constexpr i64 kMostBytes = i64{1} << 32;
  const auto within = [](i64 value, i64 most) { return value >= 0 && value <= most; };
  return r.registers >= 1 && within(r.registers, 255) && within(r.stack_bytes, kMostBytes) &&
         within(r.spill_store_bytes, kMostBytes) && within(r.spill_load_bytes, kMostBytes) &&
         within(r.static_shared_bytes, kMostBytes);
}

}  // namespace

std::string kernel_key(const KernelVariant& variant, const Architecture& architecture, NvrtcVersion version,
                       std::string_view source_digest) {
  std::string key = concat(kKeyVersion, "\nkernel ", row_of(variant.kernel).name, "\n");
  for (const std::string& option : options_of(variant, architecture)) key += concat("option ", option, "\n");
  return key + concat("nvrtc ", version.major, ".", version.minor, "\nsources ", source_digest, "\n");
}

KeySummary summary_of_key(std::string_view key) {
  KeySummary summary;
  const std::string no_threads = "THREADS=", no_shared = "SHARED_BYTES=";
  while (!key.empty()) {
    std::string_view line = key.substr(0, key.find('\n'));
    key.remove_prefix(std::min(key.size(), line.size() + 1));
    const auto take = [&](std::string_view word) {
      const bool starts = line.starts_with(word);
      if (starts) line.remove_prefix(word.size());
      return starts;
    };
    if (take("kernel ")) summary.kernel = line;
    if (take("nvrtc ")) summary.nvrtc = line;
    if (take("option --gpu-architecture=")) summary.architecture = line;
    if (take("option -D") && !line.starts_with(no_threads) && !line.starts_with(no_shared))
      summary.defines += concat(summary.defines.empty() ? "" : " ", line);
  }
  return summary;
}

Compiler::Compiler(Nvrtc nvrtc, RuntimeEnvironment environment, std::optional<CubinCache> cache)
    : nvrtc_(std::move(nvrtc)), environment_(std::move(environment)), cache_(std::move(cache)) {}

Result<CompiledVariant> Compiler::compile_one(const KernelVariant& variant, const KernelSource& source,
                                              const Architecture& architecture) {
  const std::string key = kernel_key(variant, architecture, nvrtc_.version(), source.digest);
  if (cache_) {
    if (auto kernel = cache_->find(key)) return CompiledVariant{std::move(*kernel), source.digest, true};
  }
  const std::vector<std::string> options = options_of(variant, architecture);
  NvrtcOutput output = nvrtc_.compile(source, options);
  const std::string what = concat(text_of(variant), " (", source.main.name, ")");
  if (!output.is_compiled)
    return Error{ErrorCode::kernel_compile, "",
                 concat("kernel ", what, " does not compile for ", architecture.name, ":\n",
                        shortened(output.log, kMostLog)),
                 "mend the text; MOEPLAN_KERNEL_DIR compiles from a folder"};
  const auto resources = parse_ptxas_log(output.log, row_of(variant.kernel).name);
  if (!resources || !is_plausible(*resources))
    return Error{ErrorCode::kernel_compile, "",
                 concat("the assembler does not report what kernel ", what, " takes:\n",
                        shortened(output.log, kMostLog)),
                 "this NVRTC may be newer than this build of moeplan knows; MOEPLAN_NVRTC names another"};
  CompiledVariant compiled{
      {key, std::move(output.cubin), *resources, std::move(output.log)}, source.digest, false};
  if (cache_) cache_->store(compiled.kernel);
  return compiled;
}

Result<std::vector<Result<CompiledVariant>>> Compiler::compile(std::span<const KernelVariant> variants,
                                                               const Architecture& architecture, i64 threads,
                                                               const Progress& progress) {
  const std::string digits(architecture.name.substr(std::string_view("sm_").size()));
  if (!std::ranges::binary_search(nvrtc_.architectures(), std::stoi(digits))) {
    std::vector<std::string> known;
    for (int number : nvrtc_.architectures()) known.push_back(concat("sm_", number));
    return Error{ErrorCode::unsupported_architecture, "",
                 concat("NVRTC ", nvrtc_.version().major, ".", nvrtc_.version().minor, " (", nvrtc_.path(),
                        ") does not know ", architecture.name),
                 concat("it knows ", join(known, ", "), "; MOEPLAN_NVRTC names another")};
  }
  // Each text is read once, however many variants are made of it.
  std::map<std::string_view, KernelSource> sources;
  std::map<KernelVariant, std::size_t> places;
  std::vector<KernelVariant> distinct;
  for (const KernelVariant& variant : variants) {
    const std::string_view name = row_of(variant.kernel).source;
    if (!sources.contains(name)) {
      auto source = kernel_source(name, environment_);
      if (!source) return source.error();
      sources.emplace(name, std::move(*source));
    }
    if (places.emplace(variant, distinct.size()).second) distinct.push_back(variant);
  }

  std::vector<std::optional<Result<CompiledVariant>>> results(distinct.size());
  std::mutex mutex;
  std::size_t done = 0;
  in_parallel(distinct.size(), threads, [&](std::size_t i) {
    const KernelSource& source = sources.at(row_of(distinct[i].kernel).source);
    results[i] = compile_one(distinct[i], source, architecture);
    const std::lock_guard lock(mutex);
    ++done;
    if (progress) progress(done, distinct.size());
  });

  std::vector<Result<CompiledVariant>> compiled;
  for (const KernelVariant& variant : variants) compiled.push_back(*results[places.at(variant)]);
  return compiled;
}

}  // namespace moeplan
