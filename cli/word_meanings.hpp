// What every word in brackets means: of an error, of a finding, and of a rule of `moeplan check`; and what a
// verdict of `moeplan bench` says. Help and SARIF alike look here.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "planner/policy/rules.hpp"

namespace moeplan {

enum class WordKind { error, finding, policy_rule, verdict };

struct WordMeaning {
  std::string_view word;
  std::string meaning;  // in a line; of a policy rule its title
  WordKind kind = WordKind::finding;
  const PolicyRule* rule = nullptr;  // of a policy rule
};

// All of them, kind by kind.
std::span<const WordMeaning> word_meanings();

// Null: no such word.
const WordMeaning* meaning_of_word(std::string_view word);

}  // namespace moeplan
