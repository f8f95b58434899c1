// A sweep: one config, and the grid of values that it is planned at.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/io/config.hpp"
#include "cli/sweep/axis.hpp"

namespace moeplan {

// What a sweep of one config is about. Make it with bind_sweep.
struct Sweep {
  const Config* config = nullptr;
  const ConfigOverrides* overrides = nullptr;
  std::vector<Axis> axes;
  std::vector<std::string> configured;  // each axis' value in the config itself; "" where it has none
  std::string arena;                    // the one that is looked at; "" for all
  int stated_index = -1;                // of that arena, where the config states it
  i64 points = 0;
  // A capacity beyond max_num_batched_tokens means a deployment that schedules as much.
  bool raises_scheduler = false;
  // What some column asks for and takes a while to find out.
  bool wants_sound = false;
  bool wants_cold_keys = false;
};

// Variables that axes of a deployment set.
inline constexpr std::string_view kCapacityVariable = "VLLM_EXL3_PREFILL_CAPACITY";
inline constexpr std::string_view kDecodeCapacityVariable = "VLLM_EXL3_TRELLIS_MAX_M";

// By their ids, as size prints them.
bool is_indexer_arena(std::string_view arena);
bool is_decode_arena(std::string_view arena);

// Checks the axes against the config and the arena against its plans. An error's pointer is "" when the
// command line is wrong, else the place in the config.
Result<Sweep> bind_sweep(const Config& config, const ConfigOverrides& overrides, std::vector<Axis> axes,
                         std::string arena);

// Whether the axes leave every value of the config as it is at that point.
bool is_configured(const Sweep& sweep, i64 index);

}  // namespace moeplan
