#include "runtime/jit/nvrtc.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

namespace fs = std::filesystem;

// Major versions that are known to take our options, newest first.
constexpr std::string_view kSonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

constexpr NvrtcVersion kOwnCacheSince{12, 9};
constexpr int kCompilationError = 6;  // as its documentation numbers them

using Program = void*;

template <class Function>
bool load_symbol(void* library, const char* symbol, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, symbol));
  return function != nullptr;
}

std::vector<std::string> split_paths(const std::string& list) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  while (true) {
    const std::size_t colon = list.find_first_of(":;", from);
    parts.push_back(list.substr(from, colon - from));
    if (colon == std::string::npos) return parts;
    from = colon + 1;
  }
}

bool is_absolute(std::string_view path) { return path.starts_with('/'); }

// Entries of a folder whose names pass, by the numbers in their names: newer versions come first.
template <class Passes>
std::vector<std::string> newest_first(const std::string& folder, Passes passes) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (passes(name)) found.push_back(entry->path().string());
  }
  std::ranges::sort(
      found, [](const std::string& a, const std::string& b) { return strverscmp(a.c_str(), b.c_str()) > 0; });
  return found;
}

// The libraries of a folder that have a known version.
std::vector<std::string> libraries_in(const std::string& folder) {
  return newest_first(
      folder, [](std::string_view name) { return std::ranges::find(kSonames, name) != std::end(kSonames); });
}

void add_toolkit(const std::string& folder, std::vector<std::string>& libraries) {
  for (const char* place : {"/lib64", "/lib", "/targets/x86_64-linux/lib", "/targets/sbsa-linux/lib"}) {
    for (std::string& library : libraries_in(folder + place)) libraries.push_back(std::move(library));
  }
}

// PREFIX/lib/python3*/{site,dist}-packages/nvidia/*/lib, for the prefix of every python3 in PATH. Of one
// Python the newest version comes first, whichever wheel holds it.
void add_wheels(const std::string& path, std::vector<std::string>& libraries) {
  const auto any_name = [](std::string_view) { return true; };
  const auto is_python = [](std::string_view name) { return name.starts_with("python3"); };
  for (const std::string& folder : split_paths(path)) {
    std::error_code error;
    if (!is_absolute(folder) || !fs::exists(folder + "/python3", error)) continue;
    for (const std::string& python :
         newest_first(fs::path(folder).parent_path().string() + "/lib", is_python)) {
      std::vector<std::string> found;
      for (const char* packages : {"/site-packages/nvidia", "/dist-packages/nvidia"}) {
        for (const std::string& wheel : newest_first(python + packages, any_name))
          for (std::string& library : libraries_in(wheel + "/lib")) found.push_back(std::move(library));
      }
      std::ranges::stable_sort(found, [](const std::string& a, const std::string& b) {
        return fs::path(a).filename() > fs::path(b).filename();
      });
      libraries.insert(libraries.end(), found.begin(), found.end());
    }
  }
}

// An empty or relative entry makes the loader look into the working folder.
bool loader_stays_out_of_working_folder(const RuntimeEnvironment& environment) {
  if (!environment.library_path) return true;
  return std::ranges::all_of(split_paths(*environment.library_path), is_absolute);
}

// One place to look, and what is there.
struct Place {
  std::string what;
  std::vector<std::string> libraries;
  bool is_used = true;
};

std::vector<Place> places(const RuntimeEnvironment& environment) {
  if (environment.nvrtc) return {{"MOEPLAN_NVRTC", {*environment.nvrtc}}};
  std::vector<Place> places;
  if (loader_stays_out_of_working_folder(environment))
    places.push_back({"the loader's path", {std::begin(kSonames), std::end(kSonames)}});
  else
    places.push_back(
        {"the loader's path: not used, LD_LIBRARY_PATH has an entry that is no absolute path", {}, false});

  if (!environment.cuda_home) {
    places.push_back({"CUDA_HOME: not set", {}, false});
  } else if (!is_absolute(*environment.cuda_home)) {
    places.push_back({"CUDA_HOME: not used, it is no absolute path", {}, false});
  } else {
    places.push_back({concat("CUDA_HOME, ", *environment.cuda_home), {}});
    add_toolkit(*environment.cuda_home, places.back().libraries);
  }

  places.push_back({"/usr/local/cuda*", {}});
  for (const std::string& toolkit :
       newest_first("/usr/local", [](std::string_view name) { return name.starts_with("cuda"); }))
    add_toolkit(toolkit, places.back().libraries);

  places.push_back({"wheels (nvidia-cuda-nvrtc) beside the python3 of PATH", {}});
  if (environment.path) add_wheels(*environment.path, places.back().libraries);
  return places;
}

}  // namespace

// Entry points as the library's documentation declares them; each returns 0 on success.
struct Nvrtc::Library {
  std::string path;
  NvrtcVersion version;
  std::vector<int> architectures;

  int (*get_version)(int*, int*) = nullptr;
  int (*get_architecture_count)(int*) = nullptr;
  int (*get_architectures)(int*) = nullptr;
  int (*create)(Program*, const char* text, const char* name, int headers, const char* const* texts,
                const char* const* names) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int options, const char* const* texts) = nullptr;
  int (*get_cubin_size)(Program, std::size_t*) = nullptr;
  int (*get_cubin)(Program, char*) = nullptr;
  int (*get_log_size)(Program, std::size_t*) = nullptr;
  int (*get_log)(Program, char*) = nullptr;
  const char* (*error_text)(int) = nullptr;

  // Why the library at `path` cannot be used, or nothing.
  std::optional<std::string> open(const std::string& library_path);
};

std::optional<std::string> Nvrtc::Library::open(const std::string& library_path) {
  // A pipe would wait for a writer. Bare names are the loader's to find.
  std::error_code ignored;
  if (is_absolute(library_path) && !fs::is_regular_file(library_path, ignored))
    return fs::exists(library_path, ignored) ? "is no file" : "does not exist";
  // Never closed: threads of it may outlive any one user.
  void* library = dlopen(library_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = dlerror();
    return why ? why : "cannot be loaded";
  }
  const bool is_complete = load_symbol(library, "nvrtcVersion", get_version) &&
                           load_symbol(library, "nvrtcGetNumSupportedArchs", get_architecture_count) &&
                           load_symbol(library, "nvrtcGetSupportedArchs", get_architectures) &&
                           load_symbol(library, "nvrtcCreateProgram", create) &&
                           load_symbol(library, "nvrtcDestroyProgram", destroy) &&
                           load_symbol(library, "nvrtcCompileProgram", compile) &&
                           load_symbol(library, "nvrtcGetCUBINSize", get_cubin_size) &&
                           load_symbol(library, "nvrtcGetCUBIN", get_cubin) &&
                           load_symbol(library, "nvrtcGetProgramLogSize", get_log_size) &&
                           load_symbol(library, "nvrtcGetProgramLog", get_log) &&
                           load_symbol(library, "nvrtcGetErrorString", error_text);
  if (!is_complete) return "is not NVRTC, or older than 11.2";

  Dl_info info{};
  std::error_code error;
  const bool is_located = dladdr(reinterpret_cast<void*>(get_version), &info) != 0 && info.dli_fname;
  const fs::path real = fs::canonical(is_located ? info.dli_fname : library_path, error);
  path = error ? library_path : real.string();
  if (const int code = get_version(&version.major, &version.minor)) return error_text(code);

  // NVRTC opens its built-in functions by bare name, so they have to be in the process already.
  const std::string builtins = concat(fs::path(path).parent_path().string(), "/libnvrtc-builtins.so.",
                                      version.major, ".", version.minor);
  if (fs::exists(builtins, error) && !dlopen(builtins.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    const char* why = dlerror();
    return concat("its built-in functions cannot be loaded: ", why ? why : builtins.c_str());
  }

  int count = 0;
  if (const int code = get_architecture_count(&count)) return error_text(code);
  constexpr int kMostArchitectures = 1000;
  if (count < 1 || count > kMostArchitectures) return concat("knows ", count, " architectures");
  architectures.resize(static_cast<std::size_t>(count));
  if (const int code = get_architectures(architectures.data())) return error_text(code);
  std::ranges::sort(architectures);
  return {};
}

Result<Nvrtc> Nvrtc::load(const RuntimeEnvironment& environment) {
  if (environment.nvrtc && !is_absolute(*environment.nvrtc))
    return Error{ErrorCode::no_nvrtc, "", concat("MOEPLAN_NVRTC is no absolute path: ", *environment.nvrtc),
                 "write the whole path of libnvrtc.so.13"};
  std::vector<std::string> looked;
  for (const Place& place : places(environment)) {
    std::vector<std::string> failures;
    for (const std::string& path : place.libraries) {
      auto library = std::make_shared<Library>();
      const auto failure = library->open(path);
      if (!failure) return Nvrtc(std::move(library));
      failures.push_back(failure->find(path) == std::string::npos ? concat(path, ": ", *failure) : *failure);
    }
    if (place.libraries.empty() && place.is_used) failures.emplace_back("none there");
    looked.push_back(failures.empty() ? place.what : concat(place.what, " (", join(failures, "; "), ")"));
  }
  return Error{
      ErrorCode::no_nvrtc, "",
      concat("NVIDIA's run-time compiler NVRTC was not found; looked at ", join(looked, ", ")),
      "install libnvrtc 12.8 or later (a CUDA toolkit's, or the wheel nvidia-cuda-nvrtc), or name the "
      "library: MOEPLAN_NVRTC=/path/to/libnvrtc.so.13"};
}

const std::string& Nvrtc::path() const { return library_->path; }
NvrtcVersion Nvrtc::version() const { return library_->version; }
const std::vector<int>& Nvrtc::architectures() const { return library_->architectures; }

NvrtcOutput Nvrtc::compile(const KernelSource& source, std::span<const std::string> options) const {
  std::vector<const char*> texts, names, words;
  for (const KernelSource::Text& header : source.headers) {
    texts.push_back(header.text.c_str());
    names.push_back(header.name.c_str());
  }
  for (const std::string& option : options) words.push_back(option.c_str());
  // Beside a driver NVRTC keeps a cache of its own, which answers without the assembler's report.
  if (library_->version >= kOwnCacheSince) words.push_back("--no-cache");

  NvrtcOutput output;
  Program program = nullptr;
  int code = library_->create(&program, source.main.text.c_str(), source.main.name.c_str(),
                              static_cast<int>(texts.size()), texts.data(), names.data());
  if (code != 0) {
    output.log = library_->error_text(code);
    return output;
  }
  code = library_->compile(program, static_cast<int>(words.size()), words.data());
  std::size_t size = 0;
  if (library_->get_log_size(program, &size) == 0 && size > 1) {
    output.log.resize(size);
    library_->get_log(program, output.log.data());
    output.log.resize(size - 1);  // its final zero
  }
  if (code == 0) code = library_->get_cubin_size(program, &size);
  if (code == 0) {
    output.cubin.resize(size);
    code = library_->get_cubin(program, output.cubin.data());
  }
  constexpr std::string_view kElf =
      "\x7f"
      "ELF";
  output.is_compiled = code == 0 && output.cubin.starts_with(kElf);
  // The log says what is wrong with a text, and nothing of any other failure.
  if (!output.is_compiled && code != kCompilationError)
    output.log +=
        code != 0 ? concat(library_->error_text(code), "\n") : std::string("the answer is no cubin\n");
  library_->destroy(&program);
  return output;
}

std::vector<std::string> nvrtc_candidates(const RuntimeEnvironment& environment) {
  std::vector<std::string> candidates;
  for (const Place& place : places(environment))
    candidates.insert(candidates.end(), place.libraries.begin(), place.libraries.end());
  return candidates;
}

}  // namespace moeplan
