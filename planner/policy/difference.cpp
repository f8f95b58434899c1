#include "planner/policy/difference.hpp"

#include <algorithm>

namespace moeplan {
namespace {

template <class Items, class Key>
auto find_by(const Items& items, const Key& key, auto member) {
  const auto found = std::ranges::find(items, key, member);
  return found == items.end() ? nullptr : &*found;
}

// Keys of both, those of `after` first, each once.
template <class Items>
std::vector<std::string> keys_of(const Items& before, const Items& after, auto member) {
  std::vector<std::string> keys;
  for (const Items* items : {&after, &before}) {
    for (const auto& item : *items) {
      if (std::ranges::find(keys, item.*member) == keys.end()) keys.push_back(item.*member);
    }
  }
  return keys;
}

std::optional<i64> rest_of(const SnapshotArena* arena) {
  if (!arena) return std::nullopt;
  i64 rest = arena->bytes;
  for (const NamedBytes& tensor : arena->tensors) rest -= tensor.bytes;
  return rest;
}

ArenaChange arena_change(const std::string& id, const SnapshotArena* before, const SnapshotArena* after) {
  static const std::vector<NamedBytes> kNone;
  const auto bytes = [](const auto* item) { return item ? std::optional(item->bytes) : std::nullopt; };
  const auto cold = [](const SnapshotArena* arena) { return arena ? arena->cold_keys : std::nullopt; };
  ArenaChange change{id, {bytes(before), bytes(after)}, {cold(before), cold(after)}, {}};
  const auto& old_tensors = before ? before->tensors : kNone;
  const auto& new_tensors = after ? after->tensors : kNone;
  for (const std::string& name : keys_of(old_tensors, new_tensors, &NamedBytes::name))
    change.tensors.push_back({id,
                              name,
                              {bytes(find_by(old_tensors, name, &NamedBytes::name)),
                               bytes(find_by(new_tensors, name, &NamedBytes::name))}});
  change.tensors.push_back({id, "", {rest_of(before), rest_of(after)}});
  return change;
}

}  // namespace

bool Difference::differs() const {
  const auto changed = [](const Change<i64>& change) { return change.before != change.after; };
  const bool arenas_differ = std::ranges::any_of(arenas, [&](const ArenaChange& arena) {
    return changed(arena.bytes) || std::ranges::any_of(arena.tensors, [&](const TensorChange& tensor) {
             return changed(tensor.bytes);
           });
  });
  return arenas_differ || changed(moe_bytes) || changed(indexer_bytes) || changed(late_bytes) ||
         changed(runtime_bytes) || changed(kv_bytes_per_token) || changed(kv_dcp) || changed(kv_tokens) ||
         changed(launch_keys) || changed(cold_keys);
}

Difference difference_of(const Snapshot& before, const Snapshot& after) {
  Difference difference;
  for (const std::string& id : keys_of(before.arenas, after.arenas, &SnapshotArena::id))
    difference.arenas.push_back(arena_change(id, find_by(before.arenas, id, &SnapshotArena::id),
                                             find_by(after.arenas, id, &SnapshotArena::id)));
  using Entry = Environment::value_type;
  for (const std::string& pointer : keys_of(before.settings, after.settings, &Entry::first)) {
    const auto value = [&](const Environment& settings) {
      const Entry* entry = find_by(settings, pointer, &Entry::first);
      return entry ? std::optional(entry->second) : std::nullopt;
    };
    const Change<std::string> change{value(before.settings), value(after.settings)};
    if (change.before != change.after) difference.settings.push_back({pointer, change});
  }
  difference.moe_bytes = {before.moe_bytes, after.moe_bytes};
  difference.indexer_bytes = {before.indexer_bytes, after.indexer_bytes};
  difference.late_bytes = {before.late_bytes, after.late_bytes};
  difference.runtime_bytes = {before.runtime_bytes, after.runtime_bytes};
  difference.kv_bytes_per_token = {before.kv_bytes_per_token, after.kv_bytes_per_token};
  difference.kv_dcp = {before.kv_dcp, after.kv_dcp};
  difference.kv_tokens = {before.kv_tokens, after.kv_tokens};
  difference.launch_keys = {before.launch_keys, after.launch_keys};
  difference.cold_keys = {before.cold_keys, after.cold_keys};
  difference.kv_tokens_of_growth = tokens_worth(after, difference.growth());
  return difference;
}

}  // namespace moeplan
