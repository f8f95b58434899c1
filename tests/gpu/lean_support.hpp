// What the tests of lean kernels on a GPU share: plans, their tensors between guards, and what every launch
// has to leave of them.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "planner/core/text.hpp"
#include "planner/moe/geometry.hpp"
#include "runtime/moe/lean_kernels.hpp"
#include "tests/gpu/trellis_support.hpp"

namespace moeplan::test {

struct LeanShape {
  LayerShape layer;
  i64 slice_columns;  // of a full launch
};

inline LeanPlan lean_plan_of(const LeanShape& shape, i64 bits, bool is_bfloat16) {
  const LayerShape& s = shape.layer;
  LeanPlan plan;
  plan.hidden = s.hidden;
  plan.intermediate = s.intermediate;
  plan.experts = s.experts;
  plan.top_k = s.top_k;
  plan.capacity = s.capacity;
  plan.is_bfloat16 = is_bfloat16;
  plan.multiprocessors = gpu().launcher.gpu().sm_count;
  plan.without_map.experts = plan.with_map.experts = s.router_experts;
  plan.bits = bits;
  plan.slice_columns = shape.slice_columns;
  return plan;
}

// The plan's tensors in one allocation; decode plans have none for packed routes. Whatever no test covers has
// to stay as it was filled.
class LeanArena {
  static constexpr i64 kGuard = 512;
  std::vector<i64> guards_;
  i64 end_ = 0;
  i64 routes_, experts_, slots_;

 public:
  struct Place {
    i64 begin, bytes;
  };
  const Place output, activated, expert_rows, indices, blocks, count, offsets, counts, workspace;

  explicit LeanArena(const LeanPlan& plan)
      : routes_(plan.capacity * plan.top_k),
        experts_(plan.is_decode() ? 0 : plan.with_map.experts),
        slots_(plan.is_decode() ? 0 : route_slots(routes_, kLeanBlock, experts_)),
        output(place(4 * lean_output_elements(plan.capacity, routes_, plan.hidden,
                                              fc1_columns(plan.intermediate, true)))),
        activated(place(2 * routes_ * plan.intermediate)),
        expert_rows(place(2 * routes_ * plan.slice_columns)),
        indices(place(4 * slots_)),
        blocks(place(4 * ceil_div(slots_, kLeanBlock))),
        count(place(plan.is_decode() ? 0 : 4)),
        offsets(place(plan.is_decode() ? 0 : 4 * (experts_ + 1))),
        counts(place(4 * experts_)),
        workspace(place(plan.is_decode() ? 0 : 4 * kLeanTickets)),
        memory_(must(DeviceMemory::allocate(end_, "a lean arena"))) {}

  LeanTensors tensors() const {
    const auto at = [&]<class T>(const Place& place, T*) {
      return place.bytes == 0 ? nullptr : reinterpret_cast<T*>(memory_.data() + place.begin);
    };
    constexpr int* kInts = nullptr;
    constexpr HalfBits* kHalves = nullptr;
    return {.output = at(output, static_cast<float*>(nullptr)),
            .gate_up = at(output, kHalves),
            .activated = at(activated, kHalves),
            .expert_rows = at(expert_rows, kHalves),
            .packed_route_indices = at(indices, kInts),
            .block_expert_ids = at(blocks, kInts),
            .packed_route_count = at(count, kInts),
            .expert_offsets = at(offsets, kInts),
            .expert_counts = at(counts, kInts),
            .tickets = at(workspace, kInts)};
  }
  // Not a number wherever a launch has to have written first.
  void reset() {
    must(set_bytes(memory_.data(), 0xFF, end_));
    if (workspace.bytes > 0) must(set_bytes(memory_.data() + workspace.begin, 0, workspace.bytes));
  }
  template <class T>
  std::vector<T> values(const Place& place) const {
    return values_of<T>(must(bytes_at(memory_.data() + place.begin, place.bytes)));
  }
  void check_guards() const {
    const Bytes all = must(bytes_at(memory_.data(), end_));
    i64 touched = 0;
    for (const i64 begin : guards_)
      touched += kGuard - std::count(all.begin() + begin, all.begin() + begin + kGuard, 0xFF);
    CHECK(touched == 0);
  }

 private:
  Place place(i64 bytes) {
    guards_.push_back(end_);
    const Place place{end_ + kGuard, bytes};
    end_ = align_up(place.begin + bytes, 256);
    return place;
  }

  DeviceMemory memory_;
};

inline void check_packed_routes(const LeanShape& shape, const Routing& routing,
                                const LeanPrefillLaunches& launches, const LeanArena& arena) {
  const RoutePackArguments& args = launches.route_pack.arguments;
  CHECK(args.experts == shape.layer.router_experts);
  const auto expected =
      oracle::pack_routes(std::span(routing.ids).first(static_cast<std::size_t>(args.routes)), args.experts,
                          routing.map_or_null(), kLeanBlock, args.slots, args.blocks);
  check_equal_then_poison("packed_route_indices", arena.values<int>(arena.indices), expected.route_indices);
  check_equal_then_poison("block_expert_ids", arena.values<int>(arena.blocks), expected.block_experts);
  check_equal_then_poison("packed_route_count", arena.values<int>(arena.count), {expected.count});
  check_equal_then_poison("expert_offsets", arena.values<int>(arena.offsets), expected.offsets);
  check_equal_then_poison("expert_counts", arena.values<int>(arena.counts), expected.counts);
}

// Runs the launches one by one, and compares what each leaves of every live route. `same`: of all runs whose
// rows have to have the same bytes.
class LeanRun {
 public:
  LeanRun(const LeanShape& shape, Case& which, const Routing& routing, i64 tokens, LeanArena& arena,
          SameBytes& same)
      : shape_(shape),
        s_(shape.layer),
        which_(which),
        routing_(routing),
        tokens_(tokens),
        arena_(arena),
        same_(same) {}

  template <class Launches>
  void check(const Launches& launches) {
    arena_.reset();
    if constexpr (requires { launches.route_pack; }) {
      launch(launches.route_pack);
      check_packed_routes(shape_, routing_, launches, arena_);
    }
    launch(launches.fc1);
    check_rows("gate_up", arena_.output, 2 * s_.intermediate,
               [](const oracle::RouteReference& route) { return route.fc1; });
    launch(launches.activate);
    check_rows("activated", arena_.activated, s_.intermediate,
               [](const oracle::RouteReference& route) { return route.activated; });
    for (const auto& slice : launches.slices) {
      must(set_bytes(reinterpret_cast<std::byte*>(arena_.tensors().expert_rows), 0xFF,
                     arena_.expert_rows.bytes));
      launch(slice.fc2);
      const auto column = slice.sum.arguments.output - arena_.tensors().output;
      check_rows(
          "expert_rows", arena_.expert_rows, slice.fc2.arguments.row_pitch,
          [&](const oracle::RouteReference& route) {
            const auto first = route.fc2.begin() + column;
            return std::vector<HalfBits>(first, first + slice.fc2.arguments.columns);
          },
          column);
      launch(slice.sum);
    }
    check_output();
    const auto words = arena_.values<int>(arena_.workspace);
    CHECK(std::count(words.begin(), words.end(), 0) == std::ssize(words));
    arena_.check_guards();
  }

 private:
  // `pitch`: from a row to the next; `column`: the first one of these rows.
  template <class Part>
  void check_rows(const std::string& name, const LeanArena::Place& place, i64 pitch, const Part& part,
                  i64 column = 0) {
    RowChecker rows(name, arena_.values<HalfBits>(place));
    for (i64 route = 0; route < tokens_ * s_.top_k; ++route) {
      const int expert = expert_of(s_, routing_, route);
      if (expert < 0) continue;
      const auto expected = part(which_.route(route / s_.top_k, expert));
      rows.row(route * pitch, expected);
      // Slices of other launches may begin elsewhere.
      for (i64 at = 0; at < std::ssize(expected); at += kHadamardBlock)
        same_.check(concat(name, " from column ", column + at, " on, "), route,
                    rows.bytes_of_row(route * pitch + at, kHadamardBlock));
    }
    rows.finish();
  }

  void check_output() {
    RowChecker output("output", arena_.values<float>(arena_.output));
    for (i64 token = 0; token < tokens_; ++token) {
      std::vector<double> expected(static_cast<std::size_t>(s_.hidden));
      for (i64 slot = 0; slot < s_.top_k; ++slot) {
        const i64 route = token * s_.top_k + slot;
        const int expert = expert_of(s_, routing_, route);
        if (expert < 0) continue;
        const auto& part = which_.route(token, expert).output;
        for (std::size_t i = 0; i < expected.size(); ++i)
          expected[i] += static_cast<double>(routing_.weights[static_cast<std::size_t>(route)]) * part[i];
      }
      output.row(token * s_.hidden, expected);
      same_.check("output", token, output.bytes_of_row(token * s_.hidden, s_.hidden));
    }
    // Gate and up may be left behind the output's rows.
    const i64 written = tokens_ * s_.hidden, gate_up = tokens_ * s_.top_k * s_.intermediate;
    if (gate_up > written) output.cover(written, gate_up - written);
    output.finish();
  }

  const LeanShape& shape_;
  const LayerShape& s_;
  Case& which_;
  const Routing& routing_;
  i64 tokens_;
  LeanArena& arena_;
  SameBytes& same_;
};

// A routing's ids, weights and map on the device.
class UploadedRouting {
 public:
  explicit UploadedRouting(const Routing& routing)
      : wide_ids_(routing.ids),
        narrow_ids_(std::vector<int>(routing.ids.begin(), routing.ids.end())),
        weights_(routing.weights),
        map_(routing.map.value_or(std::vector<int>())),
        id_bytes_(routing.id_bytes),
        has_map_(routing.map.has_value()) {}

  TrellisInputs inputs(const HalfBits* x) const {
    return {.x = x,
            .topk_ids = id_bytes_ == 8 ? static_cast<const void*>(wide_ids_.get()) : narrow_ids_.get(),
            .id_bytes = id_bytes_,
            .topk_weights = weights_.get(),
            .expert_map = has_map_ ? map_.get() : nullptr};
  }

 private:
  Uploaded<i64> wide_ids_;
  Uploaded<int> narrow_ids_;
  Uploaded<float> weights_;
  Uploaded<int> map_;
  i64 id_bytes_;
  bool has_map_;
};

// The kernels of one executor.
template <class Launches>
struct LeanKernels {
  std::vector<KernelVariant> (*variants)(const LeanPlan&);
  Launches (*launches)(const LeanPlan&, i64, const LeanTensors&, const TrellisWeights&, const TrellisInputs&);
};

// Every launch of a layer agrees with the reference, at every count, and a row's bytes with any other's.
template <class Launches>
void check_lean(const LeanKernels<Launches>& kernels, const LeanShape& shape, i64 bits, bool is_bfloat16) {
  const LayerShape& s = shape.layer;
  const LeanPlan plan = lean_plan_of(shape, bits, is_bfloat16);
  must(resolver().resolve(kernels.variants(plan)));
  Case which(s, bits, is_bfloat16);
  LeanArena arena(plan);
  for (const Routing& routing : routings_of(s)) {
    const UploadedRouting routed(routing);
    SameBytes same;
    for (const i64 tokens : live_counts(s.capacity)) {
      INFO(concat(bits, " bits, ", is_bfloat16 ? "bf16" : "fp16", ", ", tokens, " tokens, ", routing.name));
      LeanRun run(shape, which, routing, tokens, arena, same);
      run.check(kernels.launches(plan, tokens, arena.tensors(), which.weights(), routed.inputs(which.x())));
    }
    same.finish();
  }
}

// Launches repeat their bytes in the arena that the last one left, without any reset.
template <class Launches>
void check_lean_repeats(const LeanKernels<Launches>& kernels, const LeanShape& shape,
                        const std::vector<i64>& counts) {
  const LayerShape& s = shape.layer;
  const LeanPlan plan = lean_plan_of(shape, 3, true);
  must(resolver().resolve(kernels.variants(plan)));
  Case which(s, 3, true);
  LeanArena arena(plan);
  const UploadedRouting routed(routings_of(s)[0]);
  arena.reset();
  std::map<i64, std::vector<float>> first;
  for (int round = 0; round < 3; ++round) {
    for (const i64 tokens : counts) {
      const Launches launches =
          kernels.launches(plan, tokens, arena.tensors(), which.weights(), routed.inputs(which.x()));
      must(launch_each(launches, [](const auto& each) -> Status {
        launch(each);
        return Ok{};
      }));
      auto output = arena.values<float>(arena.output);
      output.resize(static_cast<std::size_t>(tokens * s.hidden));
      const auto [place, is_new] = first.try_emplace(tokens, output);
      if (!is_new) CHECK(place->second == output);
    }
  }
}

}  // namespace moeplan::test
