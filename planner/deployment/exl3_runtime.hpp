// What an EXL3 runtime allocates: arenas, mixed-bitrate buffers and parity staging, part by part. One runtime
// a model and device, not one a layer. Source: docs/memory.md sections 2 to 5.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/core/result.hpp"
#include "planner/deployment/buffers.hpp"
#include "planner/deployment/exl3_settings.hpp"

namespace moeplan {

enum class RuntimeForm {
  rank_sliced,     // one bit width: decode and prefill arena, parity staging
  mixed_one_grid,  // several: a state a capacity
  mixed_serial,    // several: a decode state, and one arena that the tiers share in prefill
};
inline constexpr std::string_view kRuntimeFormNames[] = {"rank_sliced", "mixed_one_grid", "mixed_serial"};
constexpr std::string_view name_of(RuntimeForm form) { return kRuntimeFormNames[static_cast<int>(form)]; }

// The one arena that the tiers of a serial mixed runtime share.
inline constexpr std::string_view kMixedPrefillArena = "mixed prefill arena";

enum class PartKind { arena, mixed_state, mixed_arena, mixed_accumulator, parity_staging };

struct RuntimePart {
  std::string name;  // unique over all runtimes of a deployment
  PartKind kind;
  i64 tokens;  // capacity; rows for the parity staging
  i64 block;   // route block, 0 where there is none
  i64 bytes;
  std::vector<Buffer> buffers;  // of the kinds that are no arena
};

struct Exl3Runtime {
  bool is_draft = false;
  RuntimeForm form = RuntimeForm::rank_sliced;
  i64 decode_tokens = 0;
  i64 prefill_tokens = 0;  // 0: no prefill plan
  i64 scheduled_tokens = 0;
  std::vector<RuntimePart> parts;

  i64 bytes() const;
};

// The draft's routed experts are EXL3 and there is a draft.
bool has_exl3_draft(const EngineSettings& engine);

// The target's runtime, then an EXL3 draft's. Needs model, quant, parallel, device and engine. Errors point
// into the config.
Result<std::vector<Exl3Runtime>> exl3_runtimes(const Deployment& deployment);

// The figure of the engine's "arena=": the prefill arena alone, 0 without one.
i64 logged_arena_bytes(const Exl3Runtime& runtime);

// The figures of the engine's "buffers=": all states of the one-grid form; for the serial form the decode
// state, then the prefill arena with its accumulator.
struct LoggedBuffers {
  i64 decode_bytes = 0;
  i64 prefill_bytes = 0;  // serial form only
};
LoggedBuffers logged_buffer_bytes(const Exl3Runtime& runtime);

// The key under which the engine keeps a runtime, in order: two layers with equal keys share it. Values that
// only the running engine knows are described in words.
std::vector<std::pair<std::string, std::string>> exl3_runtime_key(const Deployment& deployment,
                                                                  const Exl3Runtime& runtime);

}  // namespace moeplan
