#include "cli/commands/topics.hpp"

#include <algorithm>

#include "cli/word_meanings.hpp"
#include "planner/core/contract.hpp"
#include "planner/core/text.hpp"
#include "planner/deployment/exl3_settings.hpp"
#include "planner/indexer/environment.hpp"
#include "planner/moe/geometry.hpp"
#include "planner/moe/lean_geometry.hpp"
#include "planner/policy/rules.hpp"

namespace moeplan {
namespace {

std::string padded(std::string_view text, std::size_t width) {
  std::string out(text);
  out.resize(std::max(width, out.size()), ' ');
  return out;
}

std::string exit_codes() {
  return "0    asked and answered\n"
         "1    answered no: does not fit, differs, a gate fails\n"
         "2    the command line is wrong\n"
         "3    an input is unreadable or wrong\n"
         "4    no usable GPU, driver or NVRTC; only for what asks one\n"
         "5    refused: more than a limit that a flag moves\n"
         "70   a bug in moeplan\n"
         "130  interrupted, and 143 terminated, behind the last whole row\n"
         "The meaning is the same in every command and with every format.\n";
}

std::string words_of(WordKind kind) {
  std::string text;
  for (const WordMeaning& row : word_meanings()) {
    if (row.kind == kind) text += concat("  ", row.word, ": ", row.meaning, "\n");
  }
  return text;
}

std::string errors() { return words_of(WordKind::error); }
std::string findings() { return words_of(WordKind::finding); }

std::string contracts_text() {
  std::string text =
      "A contract is one released planner, byte for byte; released ones never change. Take the one of the\n"
      "engine that runs: the config's \"contract\", or --contract for one run. One is of no engine: what "
      "its\n"
      "plans would save, size, sweep and diff tell. docs/contracts.md has the formulas.\n\n";
  for (const Contract& contract : contracts()) {
    const std::string_view blocks =
        contract.lean_executor ? "moeplan's own executor, Trellis with silu alone, its own blocks"
        : contract.unpinned_blocks == UnpinnedBlocks::all ? "unpinned plans reserve all block sizes"
                                                          : "unpinned plans reserve reachable sizes";
    text += concat("  ", padded(contract.id, 20), " ", blocks, ", Trellis is ", contract.trellis_layout_name,
                   ", reads ", contract.environment_prefix, "*\n");
  }
  return text;
}

std::string blocks() {
  return concat(
      "A route block holds rows of one expert: ", join(kBlockSizes, ", ", " or "),
      " of them. Each expert's share is padded to\nwhole blocks, so larger blocks cost slots and smaller "
      "ones "
      "launches. A launch takes the smallest block that an\naverage expert fills to less than 90 %, else ",
      kBlockSizes[kBlockSizeCount - 1],
      ". Split-K scratch grows with the block and is capped by the\nmultiprocessors; block 8 doubles it "
      "after "
      "the cap. A plan without a pinned block reserves for several sizes.\nmoeplan explain ARENA -c CONFIG "
      "prices an arena at each. Plans of the lean contract have blocks of\n",
      kLeanBlock, " rows, whatever is pinned.\n");
}

std::string environment() {
  std::string text =
      "moeplan reads of its own environment: COLUMNS (width of tables), NO_COLOR, CLICOLOR, CLICOLOR_FORCE "
      "and TERM,\n"
      "and a variable that --allow-env NAME names. What compiles kernels also reads MOEPLAN_NVRTC (the "
      "library, an\n"
      "absolute path), MOEPLAN_KERNEL_DIR (texts of the kernels while they are edited) and "
      "MOEPLAN_CACHE_DIR; to find\n"
      "NVRTC and the cache also CUDA_HOME, PATH, LD_LIBRARY_PATH, HOME and XDG_CACHE_HOME: docs/kernels.md "
      "has the\n"
      "order.\nWhat the engine's environment says stands in the config under deployment.env. The EXL3 "
      "integration\n"
      "knows:\n\n";
  for (const Exl3Variable& variable : exl3_variables())
    text += concat("  ", padded(variable.name, 34), " ", variable.meaning,
                   variable.default_text.empty() ? "" : concat(" (", variable.default_text, ")"), "\n");
  text += "\nThe indexer, behind the contract's prefix:\n\n";
  for (std::string_view name : kIndexerVariableNames) text += concat("  ", name, "\n");
  return text;
}

std::string padding() {
  return "Nothing is padded for you. Trellis weights need hidden_size and moe_intermediate_size / tp to be "
         "multiples of 128,\nand a shape that is not is refused. A checkpoint that was padded states the "
         "padded size: write that one.\nRows of a routed batch are padded to blocks (moeplan help blocks); "
         "tensors start at multiples of 16 bytes in MoE\narenas and of 1,024 in indexer arenas, which size "
         "reports as alignment padding.\n";
}

std::string units() {
  return "Bytes come first and are exact. 1 KiB is 1,024 bytes, 1 MiB 1,024 KiB, 1 GiB 1,024 MiB; MiB are "
         "rounded to two\ndecimals, half up. A config takes byte sizes as integers or as \"9.15 GiB\": a "
         "printed figure is kept to its digits,\nas the interval of what it can have been. JSON answers hold "
         "integers alone.\n";
}

std::string sources() {
  return "A number is derived (from the config by formulas), imported (read from something deployed), "
         "measured "
         "(printed by an\nengine), declared (by the operator) or not stated. capacity says which for each "
         "row. "
         "What nothing states stays open;\nmoeplan never guesses a shape.\n";
}

std::string rules() {
  std::string text = "Rules of moeplan check: id, level without a policy, what holds when it is silent.\n\n";
  for (const PolicyRule& rule : policy_rules()) {
    std::string level(name_of(rule.level));
    level.resize(8, ' ');
    text += concat("  ", rule.id, "  ", level, "  ", rule.title, "\n");
  }
  return text + "\nmoeplan help MP010 explains one; docs/policy.md says how a policy states them.\n";
}

constexpr Topic kTopics[] = {
    {"exit-codes", "What the exit code says", exit_codes, "EXIT STATUS"},
    {"errors", "Every error word and what it means", errors},
    {"findings", "Every word of a finding, in brackets, and what it means", findings},
    {"contracts", "Which planners are known, and how they differ", contracts_text},
    {"blocks", "Route blocks, slots and split-K scratch", blocks},
    {"env", "Which environment variables count, and whose", environment, "ENVIRONMENT"},
    {"padding", "What is padded, and what is refused instead", padding},
    {"units", "Bytes, MiB and printed figures", units},
    {"rules", "What moeplan check looks at", rules},
    {"sources", "Where a number can be from", sources},
};

}  // namespace

std::span<const Topic> topics() { return kTopics; }

std::vector<std::string> topic_names() {
  std::vector<std::string> names;
  for (const Topic& topic : kTopics) names.emplace_back(topic.name);
  return names;
}

}  // namespace moeplan
