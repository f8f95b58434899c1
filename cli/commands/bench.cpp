// moeplan bench: what is common to its subjects, moe and indexer, each in a file of its own.
#include "cli/commands/bench_refusal.hpp"
#include "cli/commands/options.hpp"
#include "planner/core/text.hpp"

namespace moeplan {
namespace {

// The first option that was given and is another subject's; "": none.
std::string_view foreign_option(const BenchOptions& options) {
  const std::pair<std::string_view, bool> of_moe[] = {{"--executor", options.executors.has_value()},
                                                      {"--tokens", options.tokens.has_value()},
                                                      {"--capacity", options.capacities.has_value()},
                                                      {"--decode-rate", options.decode_rate.has_value()},
                                                      {"--flop-rate", options.flop_rate.has_value()}};
  const std::pair<std::string_view, bool> of_indexer[] = {
      {"--heads", options.heads.has_value()},     {"--rows", options.rows.has_value()},
      {"--context", options.context.has_value()}, {"--group", options.group.has_value()},
      {"--top-k", options.top_k.has_value()},     {"--prefill", options.is_prefill}};
  const auto first = [](const auto& all) {
    for (const auto& [option, is_given] : all)
      if (is_given) return option;
    return std::string_view();
  };
  return options.what == "moe" ? first(of_indexer) : first(of_moe);
}

}  // namespace

ExitCode run_bench(const BenchOptions& options) {
  const bool is_moe = options.what == "moe";
  if (const std::string_view foreign = foreign_option(options); !foreign.empty())
    return refuse({ErrorCode::invalid_value, "",
                   concat(foreign, " is an option of bench ", is_moe ? "indexer" : "moe", ", not of bench ",
                          options.what),
                   "moeplan bench --help says which options each has"},
                  options);
  if (!options.evidence.empty() && options.configs.paths.size() > 1)
    return refuse({ErrorCode::invalid_value, "", "--evidence is a record of one config",
                   "run moeplan bench once for each"},
                  options);
  return is_moe ? run_bench_moe(options) : run_bench_indexer(options);
}

}  // namespace moeplan
