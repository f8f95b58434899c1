// Formats: each renders any Report. One row in kFormats and one file a format.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/io/fields.hpp"
#include "planner/core/report.hpp"

namespace moeplan {

// How tables show bytes.
enum class Units { bytes_and_mib, bytes, mib, gib, automatic };

// What the runner takes of one job summary.
constexpr i64 kSummaryBytes = i64{1} << 20;

struct RenderOptions {
  i64 width = 100;     // columns of the terminal; bars that do not fit are left out
  bool ascii = false;  // no glyphs beyond ASCII
  bool quiet = false;  // the verdict alone
  bool color = false;  // verdict and levels of a table in colour
  Units units = Units::bytes_and_mib;
  i64 most_bytes = kSummaryBytes;  // markdown ends at a whole row before it is longer
  // Absolute; a file's path is given relative to the root folder.
  std::string working_folder, root_folder;
  bool plots = false;  // a table also draws its report's chart
};

// Reports in, in the order of their configs, and the mistakes of configs that have none; text out.
using Render = std::string (*)(std::span<const Report>, std::span<const Problem>, const RenderOptions&);

struct Format {
  std::string_view name;
  Render render;
  // Formats for programs answer with the problems too; otherwise people read them on stderr.
  bool renders_problems;
};

std::span<const Format> formats();

std::string render_table(std::span<const Report> reports, std::span<const Problem>,
                         const RenderOptions& options);
// One report as such; several, or problems, in one object: {"schema", "errors"?, "reports"?}.
std::string render_json(std::span<const Report> reports, std::span<const Problem> problems,
                        const RenderOptions& options);
// Every row of every table, an object a line.
std::string render_jsonl(std::span<const Report> reports, std::span<const Problem> problems,
                         const RenderOptions& options);
// Every row of every table under one header, RFC 4180.
std::string render_csv(std::span<const Report> reports, std::span<const Problem>,
                       const RenderOptions& options);
// The same with tabs between cells.
std::string render_tsv(std::span<const Report> reports, std::span<const Problem>,
                       const RenderOptions& options);
// For comments and job summaries.
std::string render_markdown(std::span<const Report> reports, std::span<const Problem> problems,
                            const RenderOptions& options);
// A testsuite a report, a testcase a rule.
std::string render_junit(std::span<const Report> reports, std::span<const Problem> problems,
                         const RenderOptions& options);
// SARIF 2.1.0.
std::string render_sarif(std::span<const Report> reports, std::span<const Problem> problems,
                         const RenderOptions& options);
// Workflow commands that annotate files.
std::string render_github(std::span<const Report> reports, std::span<const Problem> problems,
                          const RenderOptions& options);
// The report's chart, else its tables, as one picture; all reports below each other.
std::string render_svg(std::span<const Report> reports, std::span<const Problem>,
                       const RenderOptions& options);
// One self-contained page: no scripts, nothing that is loaded.
std::string render_html(std::span<const Report> reports, std::span<const Problem>,
                        const RenderOptions& options);

// The engine's flags, or its variables, one a line, as a shell takes them.
std::string render_flags(std::span<const Report> reports, std::span<const Problem>, const RenderOptions&);
std::string render_env(std::span<const Report> reports, std::span<const Problem>, const RenderOptions&);

// "error[code]: message" with its place, the line and a marker under it, and the remedy.
std::string render_problems(std::span<const Problem> problems);
}  // namespace moeplan
