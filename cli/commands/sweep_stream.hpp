// The rows of a sweep as CSV or JSON lines, one by one as they are planned.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "cli/sweep/columns.hpp"

namespace moeplan {

enum class RowFormat { csv, jsonl };

// What rows are made of: the axes, the columns, and the word of the error where a point cannot be planned.
struct RowWriter {
  RowFormat format;
  const SweepView& view;
  std::vector<const SweepColumn*> columns;  // those that programs see
  std::string config;                       // first of each row where several configs are swept; "" for one

  // Empty for JSON lines.
  std::string header() const;
  void append(const SweepPoint& point, std::string& out) const;
};

// A field as RFC 4180 has it.
void append_csv_field(std::string& out, std::string_view text);

}  // namespace moeplan
