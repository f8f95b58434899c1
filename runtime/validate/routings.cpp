#include "runtime/validate/routings.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include "planner/core/check.hpp"
#include "planner/core/text.hpp"
#include "runtime/oracle/trellis_reference.hpp"

namespace moeplan {
namespace {

class Random {
 public:
  explicit Random(i64 seed) : engine_(static_cast<std::uint64_t>(seed)) {}
  i64 below(i64 count) { return static_cast<i64>(engine_() % static_cast<std::uint64_t>(count)); }
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (i64 i = std::ssize(values) - 1; i > 0; --i)
      std::swap(values[static_cast<std::size_t>(i)], values[static_cast<std::size_t>(below(i + 1))]);
  }

 private:
  std::mt19937_64 engine_;
};

std::vector<i64> shuffled_ids(i64 count, Random& random) {
  std::vector<i64> ids(static_cast<std::size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  random.shuffle(ids);
  return ids;
}

// A token's experts differ while there are enough of them.
std::vector<i64> uniform_ids(i64 tokens, i64 top_k, std::span<const i64> reachable, Random& random) {
  const i64 count = std::ssize(reachable);
  std::vector<i64> ids;
  for (i64 token = 0; token < tokens; ++token) {
    for (i64 slot = 0; slot < top_k; ++slot) {
      const auto own = ids.end() - slot;
      i64 id = 0;
      do {
        id = reachable[static_cast<std::size_t>(random.below(count))];
      } while (slot < count && std::find(own, ids.end(), id) != ids.end());
      ids.push_back(id);
    }
  }
  return ids;
}

// One route to as many experts as can be; whole blocks beside that go to the first of them, and what is left
// to the last.
std::vector<i64> padded_ids(i64 routes, std::span<const i64> reachable, i64 block, Random& random) {
  const i64 used = min_of(routes, std::ssize(reachable));
  std::vector<i64> counts(static_cast<std::size_t>(used), 1);
  const i64 more = routes - used;
  for (i64 i = 0; i < more / block; ++i) counts[static_cast<std::size_t>(i % used)] += block;
  counts.back() += more % block;
  std::vector<i64> ids;
  for (std::size_t i = 0; i < counts.size(); ++i)
    ids.insert(ids.end(), static_cast<std::size_t>(counts[i]), reachable[i]);
  random.shuffle(ids);
  return ids;
}

std::vector<i64> zipf_ids(i64 routes, std::span<const i64> reachable, Random& random) {
  std::vector<double> sums;
  for (std::size_t i = 0; i < reachable.size(); ++i)
    sums.push_back((sums.empty() ? 0 : sums.back()) + 1 / static_cast<double>(i + 1));
  std::vector<i64> ids;
  for (i64 route = 0; route < routes; ++route) {
    const double at = sums.back() * static_cast<double>(random.below(i64{1} << 40)) / (i64{1} << 40);
    const auto place = std::ranges::upper_bound(sums, at) - sums.begin();
    ids.push_back(reachable[static_cast<std::size_t>(min_of(place, std::ssize(reachable) - 1))]);
  }
  return ids;
}

// Ids that go nowhere: below zero, behind the last, and far off in either half of 64 bits.
i64 lost_id(const RoutingShape& shape, Random& random) {
  const i64 lost[] = {-1, shape.route_experts, i64{1} << 40, i64{-1} << 33, i64{1} << 20};
  const i64 id = lost[random.below(std::ssize(lost))];
  return id >= 0 && id < shape.route_experts ? -1 : id;
}

// Two of three of the router's experts are this rank's, in another order; the others are marked by -1 or by
// what is no expert at all.
std::vector<int> expert_map(const RoutingShape& shape) {
  std::vector<int> map;
  for (i64 id = 0; id < shape.route_experts; ++id)
    map.push_back(id % 3 != 1 ? static_cast<int>((id * 2 + 1) % shape.experts)
                              : (id % 2 == 0 ? -1 : 1 << 20));
  return map;
}

}  // namespace

std::string routing_name(const TestLaunch& launch) {
  return concat(kRoutingNames[static_cast<int>(launch.routing)], launch.has_map ? ", mapped" : "");
}

Routes routes_of(const TestLaunch& launch, const RoutingShape& shape) {
  // The same kind of routing starts alike at every count.
  Random random(1000 + static_cast<int>(launch.routing));
  const i64 count = launch.tokens * shape.top_k;
  Routes routes;
  if (launch.has_map) routes.map = expert_map(shape);
  const auto expert_of = [&](i64 id) {
    const int expert = oracle::expert_of(id, shape.route_experts, launch.has_map ? &routes.map : nullptr);
    return expert < shape.experts ? expert : -1;
  };
  // Routings but the invalid ones keep to ids that mean an expert, so that they are what they say.
  std::vector<i64> reachable = shuffled_ids(shape.route_experts, random);
  std::erase_if(reachable, [&](i64 id) { return expert_of(id) < 0; });
  MOEPLAN_CHECK(!reachable.empty(), "a router that reaches no expert");

  switch (launch.routing) {
    case RoutingKind::uniform:
      routes.ids = uniform_ids(launch.tokens, shape.top_k, reachable, random);
      break;
    case RoutingKind::all_to_one:
      routes.ids.assign(static_cast<std::size_t>(count), *std::ranges::max_element(reachable));
      break;
    case RoutingKind::one_an_expert:
      for (i64 route = 0; route < count; ++route)
        routes.ids.push_back(reachable[static_cast<std::size_t>(route % std::ssize(reachable))]);
      break;
    case RoutingKind::most_padding:
      routes.ids = padded_ids(count, reachable, shape.block, random);
      break;
    case RoutingKind::zipf:
      routes.id_bytes = 8;
      routes.ids = zipf_ids(count, reachable, random);
      break;
    case RoutingKind::invalid:
      routes.id_bytes = 8;
      for (i64 route = 0; route < count; ++route) {
        const bool is_lost = route / shape.top_k % 4 == 3 || random.below(3) == 0;
        // Ids that a map, or weights of fewer experts, lead nowhere are among the others.
        routes.ids.push_back(is_lost ? lost_id(shape, random) : random.below(shape.route_experts));
      }
      break;
    case RoutingKind::all_invalid:
      routes.id_bytes = 8;
      for (i64 route = 0; route < count; ++route) routes.ids.push_back(lost_id(shape, random));
      break;
  }
  for (const i64 id : routes.ids) {
    routes.weights.push_back(static_cast<float>(1 + random.below(1000)) / 1000);
    routes.experts.push_back(expert_of(id));
  }
  return routes;
}

std::vector<i64> live_counts(const LiveRuntime& runtime) {
  std::vector<i64> counts{1, 2, runtime.capacity - 1, runtime.capacity};
  for (const LiveRange& range : rising_ranges(runtime))
    counts.insert(counts.end(), {range.last, range.last + 1});
  std::erase_if(counts, [&](i64 tokens) { return tokens < 1 || tokens > runtime.capacity; });
  std::ranges::sort(counts);
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

TestLaunches launches_to_validate(const FusedPlan& plan, bool may_lack_map, bool may_have_map,
                                  double most_work) {
  const auto work_of = [&](const TestLaunch& launch) {
    return 3.0 * static_cast<double>(launch.tokens * plan.top_k) *
           static_cast<double>(plan.hidden * plan.intermediate);
  };
  std::vector<TestLaunch> all;
  for (const bool has_map : {false, true}) {
    if (has_map ? !may_have_map : !may_lack_map) continue;
    const std::vector<i64> counts = live_counts(plan.runtime(has_map));
    const i64 last = std::ssize(counts) - 1;
    for (i64 i = 0; i <= last; ++i) {
      const bool is_chosen = i <= 1 || i == last / 2 || i >= last - 1;
      for (const RoutingKind routing : kRoutingKinds) {
        if (routing == RoutingKind::uniform || is_chosen)
          all.push_back({counts[static_cast<std::size_t>(i)], routing, has_map});
      }
    }
  }
  const auto is_largest = [&](const TestLaunch& launch) {
    return launch.routing == RoutingKind::uniform && launch.tokens == plan.capacity;
  };
  const auto place = [&](const TestLaunch& launch) {
    return std::pair(is_largest(launch) ? 0 : 1, launch.tokens);
  };
  std::ranges::stable_sort(all, {}, place);
  TestLaunches chosen;
  double work = 0;
  for (const TestLaunch& launch : all) {
    if (!is_largest(launch) && work + work_of(launch) > most_work) {
      ++chosen.left_out;
      continue;
    }
    work += work_of(launch);
    chosen.launches.push_back(launch);
  }
  std::ranges::stable_sort(chosen.launches, [](const TestLaunch& a, const TestLaunch& b) {
    return std::pair(a.tokens, a.has_map) < std::pair(b.tokens, b.has_map);
  });
  return chosen;
}

}  // namespace moeplan
