#include "runtime/nvml.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <utility>

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

using Device = void*;
struct Memory {
  unsigned long long total, free, used;
};

// The few entry points needed, as the library's documentation declares them; each returns 0 on success.
struct Nvml {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*device)(unsigned, Device*) = nullptr;
  int (*name)(Device, char*, unsigned) = nullptr;
  int (*memory)(Device, Memory*) = nullptr;
  int (*driver)(char*, unsigned) = nullptr;
  const char* (*error)(int) = nullptr;
  int (*device_at)(const char*, Device*) = nullptr;
  int (*clock)(Device, int, unsigned*) = nullptr;
};
constexpr int kSmClock = 1;

template <class Function>
bool load(void* library, const char* symbol, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, symbol));
  return function != nullptr;
}

template <class Answer>
using Answered = std::variant<Answer, std::string>;

Answered<std::vector<GpuMemory>> memory_of_gpus(const Nvml& nvml) {
  const auto failed = [&](std::string_view what, int code) { return concat(what, ": ", nvml.error(code)); };
  unsigned count = 0;
  if (const int code = nvml.count(&count)) return failed("counting GPUs", code);
  if (count == 0) return std::string("the driver sees no GPU");
  std::vector<GpuMemory> gpus;
  for (unsigned index = 0; index < count; ++index) {
    Device device = nullptr;
    Memory memory{};
    char name[96] = "GPU";
    if (const int code = nvml.device(index, &device)) return failed(concat("GPU ", index), code);
    if (const int code = nvml.memory(device, &memory)) return failed(concat("memory of GPU ", index), code);
    nvml.name(device, name, sizeof name);
    gpus.push_back({name, static_cast<i64>(memory.total), static_cast<i64>(memory.free)});
  }
  return gpus;
}

Answered<std::string> driver_of(const Nvml& nvml) {
  char version[96] = "";
  if (const int code = nvml.driver(version, sizeof version))
    return Answered<std::string>(std::in_place_index<1>, nvml.error(code));
  return Answered<std::string>(std::in_place_index<0>, version);
}

// The library, loaded and begun; whoever has it ends it.
Answered<Nvml> begun() {
  const auto failed = [](std::string why) { return Answered<Nvml>(std::in_place_index<1>, std::move(why)); };
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return failed("libnvidia-ml.so.1 cannot be loaded: no NVIDIA driver here");
  Nvml nvml;
  const bool complete =
      load(library, "nvmlInit_v2", nvml.init) && load(library, "nvmlShutdown", nvml.shutdown) &&
      load(library, "nvmlDeviceGetCount_v2", nvml.count) &&
      load(library, "nvmlDeviceGetHandleByIndex_v2", nvml.device) &&
      load(library, "nvmlDeviceGetName", nvml.name) &&
      load(library, "nvmlSystemGetDriverVersion", nvml.driver) &&
      load(library, "nvmlDeviceGetMemoryInfo", nvml.memory) &&
      load(library, "nvmlDeviceGetHandleByPciBusId_v2", nvml.device_at) &&
      load(library, "nvmlDeviceGetClockInfo", nvml.clock) && load(library, "nvmlErrorString", nvml.error);
  if (!complete) return failed("libnvidia-ml.so.1 lacks a function: the driver is too old");
  if (const int code = nvml.init()) return failed(concat("the driver does not answer: ", nvml.error(code)));
  return nvml;
}

// Begins the library for one question.
template <class Answer>
Answered<Answer> ask(Answered<Answer> (*question)(const Nvml&)) {
  const auto nvml = begun();
  if (const auto* why = std::get_if<std::string>(&nvml))
    return Answered<Answer>(std::in_place_index<1>, *why);
  auto answer = question(std::get<Nvml>(nvml));
  std::get<Nvml>(nvml).shutdown();
  return answer;
}

}  // namespace

std::variant<std::vector<GpuMemory>, std::string> probe_gpus() { return ask(memory_of_gpus); }

struct SmClock::Session {
  Nvml nvml;
  Device device = nullptr;
  Session(const Nvml& library, Device of) : nvml(library), device(of) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { nvml.shutdown(); }
};

std::variant<SmClock, std::string> SmClock::open(const std::string& pci_bus_id) {
  auto answer = begun();
  if (auto* why = std::get_if<std::string>(&answer)) return std::move(*why);
  const Nvml& nvml = std::get<Nvml>(answer);
  Device device = nullptr;
  if (const int code = nvml.device_at(pci_bus_id.c_str(), &device)) {
    std::string why = concat("GPU ", pci_bus_id, ": ", nvml.error(code));
    nvml.shutdown();
    return why;
  }
  SmClock clock(std::make_shared<const Session>(nvml, device));
  unsigned mhz = 0;
  if (const int code = nvml.clock(device, kSmClock, &mhz))
    return concat("clock of GPU ", pci_bus_id, ": ", nvml.error(code));
  return clock;
}

std::optional<i64> SmClock::mhz() const {
  unsigned mhz = 0;
  if (session_->nvml.clock(session_->device, kSmClock, &mhz) != 0) return std::nullopt;
  return i64{mhz};
}

std::string driver_version() {
  const auto answer = ask(driver_of);
  return answer.index() == 0 ? std::get<0>(answer) : "";
}

}  // namespace moeplan
