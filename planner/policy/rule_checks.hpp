// What the rules are made of: one firing, what a rule looks at, words they share, and each rule's check.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/wide.hpp"
#include "planner/policy/rules.hpp"

namespace moeplan {

// One firing of a rule. `level`: where the rule passes on a finding that has its own.
struct Breach {
  std::string pointer;
  std::string message;
  std::string remedy;  // "" is the rule's own
  i64 bytes = 0;
  std::optional<RuleLevel> level = {};
};

struct RuleCase {
  const CheckSubject& subject;
  const RuleSettings& limits;
  std::vector<Breach>& out;

  bool is_exl3_deployment() const;
};

// "1,600.16 MiB", for messages: two decimals, half up.
std::string mib(i64 bytes);

// "+145.8%" of `before`, which `growth` is added to.
std::string per_cent(i64 growth, i64 before);

// ", worth 12 KV tokens a rank"; "" where a token's bytes are not known.
std::string worth(const Snapshot& snapshot, i64 bytes);

// The field that changed and that scratch most likely follows from; the engine's settings come first.
std::string changed_field(const Difference& difference, std::string_view fallback);

// The first changed settings, with both values.
std::string changes_text(const Difference& difference);

// The field that decides how much is reserved.
std::string scratch_field(const RuleCase& c);

// scratch_rules.cpp
void check_scratch_limit(const RuleCase& c);
void check_growth(const RuleCase& c);
void check_baseline(const RuleCase& c);
void check_known(const RuleCase& c);

// plan_rules.cpp
void check_padding(const RuleCase& c);
void check_route_experts(const RuleCase& c);
void check_unpinned(const RuleCase& c);
void check_pin_reach(const RuleCase& c);
void check_trellis_pin(const RuleCase& c);
void check_duplicates(const RuleCase& c);
void check_layer_arenas(const RuleCase& c);
void check_floor(const RuleCase& c);
void check_soundness(const RuleCase& c);

// launch_rules.cpp
void check_launches(const RuleCase& c);
void check_coverage(const RuleCase& c);
void check_capture(const RuleCase& c);
void check_new_cold_keys(const RuleCase& c);

// deployment_rules.cpp
void check_late(const RuleCase& c);
void check_defaults(const RuleCase& c);
void check_dropped_settings(const RuleCase& c);
void check_kv_tokens(const RuleCase& c);
void check_lost_kv_tokens(const RuleCase& c);
void check_known_figures(const RuleCase& c);
void check_engine(const RuleCase& c);
void check_indexer(const RuleCase& c);

}  // namespace moeplan
