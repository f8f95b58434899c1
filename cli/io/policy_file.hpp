// Reading a policy, schema moeplan.policy/1.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/io/fields.hpp"
#include "planner/policy/policy.hpp"

namespace moeplan {

// A policy as read. It counts only when there are no problems.
struct PolicyFile {
  std::string name;
  std::string text;
  JsonDocument document;
  Policy policy;
  std::vector<Problem> problems;
};

// Reads `path`, or standard input for "-"; "" is the default policy.
std::unique_ptr<PolicyFile> read_policy(const std::string& path);
std::unique_ptr<PolicyFile> parse_policy(std::string name, std::string text);

// The rows of a policy, for the schema.
std::span<const Field> policy_fields();

}  // namespace moeplan
