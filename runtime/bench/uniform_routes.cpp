#include "runtime/bench/uniform_routes.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace moeplan {

std::vector<int> uniform_routes(std::mt19937_64& engine, i64 tokens, i64 top_k, i64 experts) {
  std::vector<int> all(static_cast<std::size_t>(experts)), ids;
  std::iota(all.begin(), all.end(), 0);
  ids.reserve(static_cast<std::size_t>(tokens * top_k));
  for (i64 token = 0; token < tokens; ++token) {
    for (i64 slot = 0; slot < top_k; ++slot) {
      const i64 taken = slot % experts;
      const i64 other = taken + static_cast<i64>(engine() % static_cast<std::uint64_t>(experts - taken));
      std::swap(all[static_cast<std::size_t>(taken)], all[static_cast<std::size_t>(other)]);
      ids.push_back(all[static_cast<std::size_t>(taken)]);
    }
  }
  return ids;
}

i64 distinct_experts(std::span<const int> ids, i64 experts) {
  std::vector<bool> is_hit(static_cast<std::size_t>(experts));
  for (const int id : ids) is_hit[static_cast<std::size_t>(id)] = true;
  return std::ranges::count(is_hit, true);
}

}  // namespace moeplan
