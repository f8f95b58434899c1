// moeplan_evidence NAME --out FILE: runs a record's work on the GPU of this machine and writes what it
// showed. Plans are those of a config of configs/ in the working folder. Exits with 0 for PASS, 1 for FAIL, 2
// for a wrong command line, 3 without the config, 4 without a GPU.
#include <fstream>
#include <iostream>
#include <string>

#include "cli/commands/planned_config.hpp"
#include "cli/commands/run_evidence.hpp"
#include "planner/core/text.hpp"
#include "runtime/jit/digest.hpp"
#include "tests/gpu/records.hpp"
#include "tests/temporary_folder.hpp"

namespace moeplan::test {
namespace {

struct Record {
  std::string_view name;
  Result<Evidence> (*run)(const RecordContext&);
  const char* config;  // whose decode and prefill plans it is about
  std::string_view what;
};

constexpr Record kRecords[] = {
    {"arena_guards", record_arena_guards, "configs/glm52.json",
     "stray bytes caught at every edge; speed of fill and scan"},
    {"launch_capture", record_launch_capture, "configs/glm52.json",
     "misses under capture, replays, and the cost of a launch"},
    {"trellis_speed", record_trellis_speed, "configs/glm52-e160.json",
     "a layer's time at 1 to 3,072 tokens, replayed as a graph"},
    {"indexer_speed", record_indexer_speed, "configs/glm52.json",
     "an indexer call's time at 1 to 3,072 rows, replayed as a graph"},
    {"lean_speed", record_lean_speed, "configs/glm52-e160.json",
     "a layer's time at 1 to 3,072 tokens, in lean plans and in the config's own, in turns"},
};

enum RecordExit { kPass = 0, kFail = 1, kUsage = 2, kNoConfig = 3, kNoGpu = 4 };

std::optional<RecordPlan> plan_named(const PlannedConfig& planned, std::string_view id) {
  const auto found = std::ranges::find(planned.plans, id, &PlannedRequest::id);
  if (found == planned.plans.end() || !found->moe()) return std::nullopt;
  return RecordPlan{found->origin.request.moe, *found->moe()};
}

// What every record says of the machine and of the kernels that were compiled for it.
Status complete(Evidence& evidence, const Record& record, const Gpu& gpu) {
  evidence.name = record.name;
  evidence.command = concat("./dev evidence ", record.name);
  evidence.config = Digest{record.config, sha256_hex(read_file(record.config))};
  return describe_run(evidence,
                      {gpu.launcher.gpu(), gpu.launcher.architecture(), gpu.compiler, gpu.compiled});
}

int write(const Record& record, const std::string& file) {
  auto gpu = Gpu::open();
  if (!gpu) {
    std::cerr << gpu.error().message << "; " << gpu.error().help << "\n";
    return kNoGpu;
  }
  const PlannedConfig planned = plan_config(read_config(record.config, {}));
  const auto decode = plan_named(planned, "decode");
  const auto prefill = plan_named(planned, "prefill");
  if (!decode || !prefill) {
    std::cerr << "no plans can be made of " << record.config
              << "; run it where the source tree's configs/ lies\n";
    return kNoConfig;
  }
  auto evidence = record.run({**gpu, *decode, *prefill});
  if (!evidence) {
    std::cerr << record.name << ": " << evidence.error().message << "\n";
    return kFail;
  }
  if (const Status completed = complete(*evidence, record, **gpu); !completed) {
    std::cerr << completed.error().message << "\n";
    return kFail;
  }
  std::ofstream out(file, std::ios::binary);
  out << evidence_json(*evidence);
  out.close();
  if (!out) {
    std::cerr << "cannot write " << file << "\n";
    return kFail;
  }
  std::cout << record.name << ": " << (evidence->is_pass ? "PASS" : "FAIL") << "\n";
  for (const EvidenceFact& fact : evidence->facts) {
    std::cout << "  " << fact.name << ": ";
    std::visit([](const auto& value) { std::cout << value; }, fact.value);
    std::cout << "\n";
  }
  return evidence->is_pass ? kPass : kFail;
}

int run(std::span<char* const> arguments) {
  if (arguments.size() == 1 && std::string_view(arguments[0]) == "--list") {
    for (const Record& record : kRecords) std::cout << record.name << "  " << record.what << "\n";
    return kPass;
  }
  if (arguments.size() == 3 && std::string_view(arguments[1]) == "--out") {
    const auto* record = std::ranges::find(kRecords, std::string_view(arguments[0]), &Record::name);
    if (record != std::end(kRecords)) return write(*record, arguments[2]);
    std::cerr << "no record is named " << arguments[0] << "; --list names all\n";
    return kUsage;
  }
  std::cerr << "usage: moeplan_evidence NAME --out FILE | --list\n";
  return kUsage;
}

}  // namespace
}  // namespace moeplan::test

int main(int count, char** arguments) {
  return moeplan::test::run(std::span(arguments, static_cast<std::size_t>(count)).subspan(1));
}
