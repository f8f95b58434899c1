// The rows of a sweep as CSV, TSV or JSON lines, one by one as they are planned.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/commands/options.hpp"
#include "cli/io/text_file.hpp"
#include "cli/sweep/columns.hpp"

namespace moeplan {

enum class RowFormat { csv, tsv, jsonl };

// Whether a sweep's output leaves row by row, and how; none for formats of whole reports.
std::optional<RowFormat> row_format(const Output& output);

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

// Where the rows of one output go: the same place for all configs, under one header.
class RowSink {
 public:
  RowSink(Output output, RowFormat format) : output_(std::move(output)), format_(format) {}

  RowFormat format() const { return format_; }
  // Opens the place: a file that gets no rows is empty, not as it was.
  Status open();
  // Opens it, and writes the header; once.
  Status begin(const RowWriter& writer);
  Status write(std::string_view text);

 private:
  Output output_;
  RowFormat format_;
  std::optional<GrowingFile> file_;
  bool has_begun_ = false;
};

}  // namespace moeplan
