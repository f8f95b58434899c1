// Baseline files, schema moeplan.baseline/1: what configs reserved when somebody last agreed to it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/io/fields.hpp"
#include "planner/policy/snapshot.hpp"

namespace moeplan {

struct BaselineChange {
  std::string date;
  std::string reason;
};

struct Baseline {
  i64 schema_version = 1;
  std::optional<std::string> schema;
  std::vector<BaselineChange> history;  // oldest first
  std::vector<Snapshot> configs;        // by path

  // The entry of that path, or null.
  const Snapshot* find(std::string_view config) const;
  // Replaces the entry of the same path, or adds one.
  void put(Snapshot snapshot);
};

// A baseline as read. It counts only when there are no problems.
struct BaselineFile {
  std::string name;
  std::string text;
  JsonDocument document;
  Baseline baseline;
  std::vector<Problem> problems;
};

std::unique_ptr<BaselineFile> read_baseline(const std::string& path);
std::unique_ptr<BaselineFile> parse_baseline(std::string name, std::string text);

// The rows of a baseline, for the schema.
std::span<const Field> baseline_fields();

// The same values give the same bytes.
std::string write_baseline(const Baseline& baseline);

// Seven digits that name these bytes; not cryptographic.
std::string short_digest(std::string_view text);

}  // namespace moeplan
