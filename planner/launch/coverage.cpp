#include "planner/launch/coverage.hpp"

#include <optional>

namespace moeplan {
namespace {

// Distinct values of max_m_blocks over first..last tokens, where each is of exactly its tokens.
i64 exact_block_counts(const LaunchPlan& plan, const LiveRange& tokens) {
  const i64 block = plan.tiles.block;
  // With fewer rows than experts each row has its own block; with more, a token adds top_k / block.
  const auto distinct = [&](i64 first, i64 last) -> i64 {
    if (first > last) return 0;
    if (plan.top_k >= block || last * plan.top_k < plan.route_experts) return last - first + 1;
    return max_m_blocks(plan, last) - max_m_blocks(plan, first) + 1;
  };
  // The last token count with one row an expert at most.
  const i64 sparse = min_of(tokens.last, (plan.route_experts - 1) / plan.top_k);
  if (sparse < tokens.first) return distinct(tokens.first, tokens.last);
  i64 count = distinct(tokens.first, sparse);
  if (sparse == tokens.last) return count;
  count += distinct(sparse + 1, tokens.last);
  return count - (max_m_blocks(plan, sparse) == max_m_blocks(plan, sparse + 1) ? 1 : 0);
}

bool same_but_blocks(const LaunchKey& a, const LaunchKey& b) {
  return a == b.with_max_m_blocks(a.max_m_blocks());
}

// Recounts a run from its ends; `exact`: its tokens have no bucket.
void close_run(const LaunchPlan& plan, KeyRun& run) {
  run.last_m_blocks = max_m_blocks(plan, run.tokens.last);
  const bool exact = !bucket_fits(plan, run.tokens.first);
  run.keys = exact ? exact_block_counts(plan, run.tokens) : 1;
}

// The first token count of `tokens` with at least that many blocks.
i64 first_with_blocks(const LaunchPlan& plan, LiveRange tokens, i64 blocks) {
  while (tokens.first < tokens.last) {
    const i64 middle = tokens.first + (tokens.last - tokens.first) / 2;
    if (max_m_blocks(plan, middle) >= blocks)
      tokens.last = middle;
    else
      tokens.first = middle + 1;
  }
  return tokens.first;
}

// The token counts of the run that probe exactly that many blocks; none where it skips the number.
std::optional<LiveRange> tokens_of_blocks(const LaunchPlan& plan, const KeyRun& run, i64 blocks) {
  const i64 first = first_with_blocks(plan, run.tokens, blocks);
  if (max_m_blocks(plan, first) != blocks) return std::nullopt;
  if (blocks == run.last_m_blocks) return LiveRange{first, run.tokens.last};
  return LiveRange{first, first_with_blocks(plan, run.tokens, blocks + 1) - 1};
}

KeyRun part_of(const LaunchPlan& plan, const KeyRun& run, LiveRange tokens) {
  KeyRun part = run;
  part.tokens = tokens;
  part.key = run.key.with_max_m_blocks(max_m_blocks(plan, tokens.first));
  close_run(plan, part);
  return part;
}

Status append_runs(const LaunchPlan& plan, const LiveRange& live, std::vector<KeyRun>& runs) {
  const i64 saturated = saturating_tokens(plan.top_k, plan.tiles.multiprocessors);
  for (i64 first = live.first; first <= live.last;) {
    // Up to saturation each count selects its own tiles; a single token has a kernel of its own. Beyond,
    // nothing changes within a power-of-two bucket.
    const i64 bucket = min_of(pow2_ceil(first), live.last);
    const i64 last = first < saturated || first == 1 ? first : bucket;
    const auto key = launch_key(plan, first);
    if (!key) return key.error();
    KeyRun run{{first, last}, *key, 0, 0, {}};
    close_run(plan, run);
    KeyRun* before = runs.empty() ? nullptr : &runs.back();
    // A bucket's run and one of exact counts stay apart: their keys are counted differently.
    const bool joins = before && before->tokens.last + 1 == first && same_but_blocks(before->key, *key) &&
                       bucket_fits(plan, before->tokens.first) == bucket_fits(plan, first) &&
                       (before->key == *key || !bucket_fits(plan, first));
    if (joins) {
      before->tokens.last = last;
      close_run(plan, *before);
    } else {
      runs.push_back(run);
    }
    first = last + 1;
  }
  return Ok{};
}

}  // namespace

Result<std::vector<KeyRun>> key_runs(const LaunchPlan& plan, const std::vector<LiveRange>& live) {
  std::vector<KeyRun> runs;
  for (const LiveRange& range : live) {
    if (auto s = append_runs(plan, range, runs); !s) return s.error();
  }
  return runs;
}

void WarmKeys::add(const LaunchKey& key, const Warmth& warmth) {
  Warmth& known = families_[key.with_max_m_blocks(0)][key.max_m_blocks()];
  known.prewarmed |= warmth.prewarmed;
  known.profiled |= warmth.profiled;
  known.captured |= warmth.captured;
}

const std::map<i64, Warmth>* WarmKeys::family_of(const LaunchKey& key) const {
  const auto family = families_.find(key.with_max_m_blocks(0));
  return family == families_.end() ? nullptr : &family->second;
}

void mark_warm(const LaunchPlan& plan, std::vector<KeyRun>& runs, const WarmKeys& warm) {
  std::vector<KeyRun> out;
  for (const KeyRun& run : runs) {
    i64 next = run.tokens.first;
    if (const auto* family = warm.family_of(run.key)) {
      for (auto hit = family->lower_bound(run.key.max_m_blocks());
           hit != family->end() && hit->first <= run.last_m_blocks; ++hit) {
        const auto tokens = tokens_of_blocks(plan, run, hit->first);
        if (!tokens) continue;
        if (tokens->first > next) out.push_back(part_of(plan, run, {next, tokens->first - 1}));
        out.push_back(part_of(plan, run, *tokens));
        out.back().warmth = hit->second;
        next = tokens->last + 1;
      }
    }
    if (next <= run.tokens.last) out.push_back(part_of(plan, run, {next, run.tokens.last}));
  }
  runs = std::move(out);
}

std::vector<i64> m_blocks_of(const LaunchPlan& plan, const KeyRun& run) {
  std::vector<i64> blocks;
  for (i64 next = run.tokens.first; next <= run.tokens.last;) {
    blocks.push_back(max_m_blocks(plan, next));
    if (blocks.back() == run.last_m_blocks) break;
    next = first_with_blocks(plan, {next, run.tokens.last}, blocks.back() + 1);
  }
  return blocks;
}

Coverage coverage_of(const std::vector<KeyRun>& runs) {
  Coverage sum;
  const KeyRun* before = nullptr;
  for (const KeyRun& run : runs) {
    const i64 tokens = run.tokens.last - run.tokens.first + 1;
    // Token counts on both sides of a gap may share a key.
    const bool repeats = before && before->key.with_max_m_blocks(before->last_m_blocks) == run.key;
    before = &run;
    const i64 keys = run.keys - (repeats ? 1 : 0);
    sum.keys += keys;
    sum.tokens += tokens;
    if (run.warmth.prewarmed) sum.prewarmed_tokens += tokens;
    if (!run.warmth.cold()) continue;
    sum.cold_keys += keys;
    sum.cold_tokens += tokens;
  }
  return sum;
}

}  // namespace moeplan
