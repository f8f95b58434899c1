#include "cli/word_meanings.hpp"

#include <algorithm>
#include <vector>

#include "cli/render/marks.hpp"
#include "planner/core/error_code.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/exl3_rules.hpp"
#include "planner/deployment/ignored_pins.hpp"
#include "runtime/bench/paired_verdict.hpp"
#include "runtime/planned_kernels.hpp"

namespace moeplan {
namespace {

struct FindingWordRow {
  std::string_view word;
  std::string_view meaning;
};

// Beside the rules that say what they promise: one row each. Words are never renamed.
constexpr FindingWordRow kFindingWords[] = {
    {kVerdictRule, "the question was answered with no"},
    // deployments
    {"indexer-not-planned", "the indexer's arenas need a field that the config does not state"},
    {"indexer-untouched-reserve", "bytes of an indexer arena that its route never touches"},
    {"indexer-late-allocation", "a call allocates outside every arena, after the start-up profile"},
    {"indexer-fold-cap", "a fold of more slices than its cap aims at"},
    {"indexer-supertile-beyond-context", "a stated supertile is longer than the context"},
    {"indexer-ignored-variable", "a variable of another contract's prefix, which this engine never reads"},
    {kIgnoredPin, "a pin for an engine's kernels that the contract's own executor does not read"},
    {"misleading-variable", "a variable whose text does not do what it seems to"},
    {"measured-activation", "the measured peak is below the scratch that is planned"},
    {"measured-waterfall", "stated terms and the printed KV memory contradict each other"},
    {"measured-tokens", "printed KV tokens and printed KV memory contradict each other"},
    // audit
    {"unsound", "a tensor is smaller than what some live token count needs"},
    {"never-touched", "reserved bytes that no launch uses"},
    {"block-8-doubles", "block 8 doubles its split-K scratch: another pin would reserve less"},
    {"capacity-not-monotone", "a smaller capacity would reserve more"},
    // launches
    {"launch-fails", "a plan that cannot be launched"},
    {"launch-not-modelled", "a plan whose launch keys are not modelled"},
    {"launch-cold", "kernels that compile at their first use, mid-serve"},
    {"launch-prewarm-dead", "a prewarmed kernel that no launch uses"},
    {"launch-capture-compile", "a graph whose kernels rely on the warm-up before its capture"},
    // compile, validate, bench, cache
    {"does-not-compile", "the compiler refuses a kernel"},
    {"spills", "a kernel keeps values in memory because a thread's registers do not suffice"},
    {"shared-memory", "a kernel takes more shared memory a block than a block may have"},
    {"not-resident", "blocks of a kernel that have to be resident together are not"},
    {"refused", "the executor refuses a plan: a tensor is too small for a launch"},
    {"not-run", "a plan could not be run; its message says why"},
    {"not-timed", "a call could not be timed; its message says why"},

    {"skipped", "nothing was run, and --if-available asks for no more"},
    {"shrink", "a tensor lost its last element and nothing noticed"},
    {"guards", "a byte outside every tensor changed"},
    {"need", "a tensor was written behind what the executor's own reckoning takes"},
    {"oracle", "the output is off from the reference by more than its bar"},
    {"finite", "the output holds a value that is no number"},
    {"rows", "rows behind the live tokens, or of routes that go nowhere, were written"},
    {"poison", "the output depends on what the arena held before"},
    {"graph", "the output as a graph differs"},
    {"scratch", "split-K scratch was written behind what it takes there"},
    {"workspace", "locks or barrier words were not left as zeros"},
    {"environment", "the runtime read an environment variable while the step was captured"},
    {"damaged", "an entry of the kernel cache is not as it was written"},
};

// How one executor compares with another; runtime/bench/paired_verdict.hpp decides it.
constexpr FindingWordRow kVerdictWords[] = {
    {name_of(PairedVerdict::faster),
     "of pairs of runs that took turns the median ratio is below 0.99, and its 95 % interval below 1"},
    {name_of(PairedVerdict::slower),
     "of pairs of runs that took turns the median ratio is above 1.01, and its 95 % interval above 1"},
    {name_of(PairedVerdict::same),
     "of pairs of runs that took turns the median ratio's 95 % interval lies between 0.99 and 1.01"},
    {name_of(PairedVerdict::unsure),
     "the runs that took turns scatter too much to say which is faster: run again on a quiet GPU"},
};

std::vector<WordMeaning> all_words() {
  std::vector<WordMeaning> words;
  for (const ErrorCodeRow& row : kErrorCodes)
    words.push_back({row.word, std::string(row.meaning), WordKind::error});
  for (const FindingWordRow& row : kFindingWords) words.push_back({row.word, std::string(row.meaning)});
  for (const FindingWordRow& row : kVerdictWords)
    words.push_back({row.word, std::string(row.meaning), WordKind::verdict});
  words.push_back(
      {"no-kernels", concat("this build has no kernels of its own for the plan, which is left out; it runs ",
                            kPlansWithKernels, " within the limits of docs/kernels.md")});
  for (const Exl3Rule& rule : exl3_rules()) words.push_back({rule.id, concat("fires unless ", rule.promise)});
  for (const PolicyRule& rule : policy_rules())
    words.push_back({rule.id, std::string(rule.title), WordKind::policy_rule, &rule});
  return words;
}

}  // namespace

std::span<const WordMeaning> word_meanings() {
  static const std::vector<WordMeaning> words = all_words();
  return words;
}

const WordMeaning* meaning_of_word(std::string_view word) {
  const auto words = word_meanings();
  const auto row = std::ranges::find(words, word, &WordMeaning::word);
  return row == words.end() ? nullptr : &*row;
}

}  // namespace moeplan
